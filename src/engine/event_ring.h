// EventRing: the bounded way out of the engine for one request. One producer (the engine thread), one consumer (an I/O
// thread).
//
// The last place is kept for the terminal event (Finished, Failed), so a full ring can never lose it. When the ring is
// full for anything else the engine pauses this one session and looks again at each step (has_room()).
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>

#include "core/limits.h"
#include "engine/events.h"

namespace roost::engine {

class EventRing {
 public:
  // `wake` is called after a push that found the consumer waiting; on the engine thread, so it must only post.
  // `drained` is called (on the consumer's thread) when a full ring got room again, to wake an idle engine; may be
  // empty.
  explicit EventRing(std::function<void()> wake, std::size_t capacity = limits::kTokenRing)
      : capacity_(capacity), wake_(std::move(wake)) {}

  void set_drained(std::function<void()> drained) {
    const std::lock_guard lock(mutex_);
    drained_ = std::move(drained);
  }

  // Producer. True when a non-terminal event fits.
  bool has_room() const {
    const std::lock_guard lock(mutex_);
    return events_.size() + 1 < capacity_;
  }

  // Producer. The caller has asked has_room() first, unless the event is terminal.
  void push(Event event) {
    bool notify = false;
    {
      const std::lock_guard lock(mutex_);
      events_.push_back(std::move(event));
      notify = std::exchange(waiting_, false);
    }
    if (notify) wake_();
  }

  // Consumer. Empty: nothing there now; `wake` will be called after the next push.
  std::optional<Event> pop() {
    std::optional<Event> event;
    std::function<void()> drained;
    {
      const std::lock_guard lock(mutex_);
      if (events_.empty()) {
        waiting_ = true;
        return std::nullopt;
      }
      const bool was_full = events_.size() + 1 >= capacity_;
      event.emplace(std::move(events_.front()));
      events_.pop_front();
      if (was_full && events_.size() + 1 < capacity_) drained = drained_;
    }
    if (drained) drained();
    return event;
  }

 private:
  mutable std::mutex mutex_;
  std::deque<Event> events_;
  const std::size_t capacity_;
  bool waiting_ = false;
  std::function<void()> wake_;
  std::function<void()> drained_;
};

}  // namespace roost::engine
