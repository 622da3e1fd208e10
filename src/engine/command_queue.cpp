#include "engine/command_queue.h"

#include <utility>

namespace roost::engine {

bool CommandQueue::push(EngineCommand command) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    // A cancel frees what others wait for, so it is never refused; there is at most one per open request.
    if (commands_.size() >= capacity_ && !std::holds_alternative<Cancel>(command)) return false;
    commands_.push_back(std::move(command));
  }
  changed_.notify_one();
  return true;
}

void CommandQueue::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_one();
}

void CommandQueue::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  changed_.notify_one();
}

bool CommandQueue::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

std::deque<EngineCommand> CommandQueue::take() {
  const std::lock_guard lock(mutex_);
  woken_ = false;
  return std::exchange(commands_, {});
}

void CommandQueue::wait(std::optional<Duration> timeout) {
  std::unique_lock lock(mutex_);
  const auto ready = [this] { return woken_ || closed_ || !commands_.empty(); };
  if (!timeout) {
    changed_.wait(lock, ready);
  } else if (*timeout > Duration::zero()) {
    changed_.wait_for(lock, *timeout, ready);
  }
}

}  // namespace roost::engine
