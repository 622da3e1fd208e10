// CommandQueue: the bounded way into the engine. Many producers (any thread), one consumer (the engine thread), which
// sleeps here when it has nothing to do.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "core/clock.h"
#include "engine/commands.h"

namespace roost::engine {

class CommandQueue {
 public:
  explicit CommandQueue(std::size_t capacity) : capacity_(capacity) {}

  // Any thread. False: full or closed; `command` is dropped.
  bool push(EngineCommand command);
  // Any thread. Ends the consumer's sleep without a command.
  void wake();
  // Any thread. No command enters any more; the consumer wakes.
  void close();
  bool closed() const;

  // Engine thread. All commands that are there, in order.
  std::deque<EngineCommand> take();
  // Engine thread. Sleeps until a command, wake(), close(), or the time-out (empty = none).
  void wait(std::optional<Duration> timeout);

 private:
  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<EngineCommand> commands_;
  bool woken_ = false;
  bool closed_ = false;
};

}  // namespace roost::engine
