// Deadline: calls back once when a time has passed, unless it is disarmed or destroyed first. Internal to net/.
// Lives on one executor: arm(), disarm(), the callback and the destructor are all called there.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

namespace roost::net {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Deadline(const boost::asio::any_io_executor& executor);
  ~Deadline() { disarm(); }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

  // Replaces an earlier arming.
  void arm(Clock::time_point at, std::function<void()> on_expiry);
  // True if the callback has run since arm().
  bool disarm();

 private:
  // Outlives the Deadline while a timer handler is queued.
  struct State {
    std::uint64_t generation = 0;
    bool expired = false;
    std::function<void()> on_expiry;
  };
  boost::asio::steady_timer timer_;
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace roost::net
