// Wakeup: lets a coroutine wait for an event that another thread (the engine's) announces, or for a deadline. Kept by a
// shared_ptr, because the announcer may outlive the coroutine.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>

namespace roost::api {

class Wakeup : public std::enable_shared_from_this<Wakeup> {
 public:
  using Time = boost::asio::steady_timer::time_point;

  // `executor` runs one thing at a time (a strand).
  explicit Wakeup(boost::asio::any_io_executor executor) : executor_(executor), timer_(executor) {}

  // Any thread; never waits.
  void notify();
  // On the executor only: the same at once.
  void signal();
  // On the executor only, one waiter at a time. Returns when signalled (also if that was before), or at the deadline.
  boost::asio::awaitable<void> wait(Time deadline);

 private:
  boost::asio::any_io_executor executor_;
  boost::asio::steady_timer timer_;
  bool signalled_ = false;
};

}  // namespace roost::api
