// ConnectionPool: the HTTP client's connections to one origin; never more than `limit`, those who wait get one in the
// order they came. Internal to net/. Lives on one executor.
//
// open = leased + idle <= limit. Somebody waits only while there is no idle connection and no room for a new one.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <list>
#include <memory>
#include <vector>

#include "core/abort.h"
#include "net/transport.h"

namespace roost::net {

class ConnectionPool : public std::enable_shared_from_this<ConnectionPool> {
 public:
  // A place in the pool, with its connection once there is one. Given back in the destructor: with the connection if
  // keep() was called, else the connection is closed.
  class Lease {
   public:
    Lease(std::shared_ptr<ConnectionPool> pool, std::unique_ptr<Transport> reused);
    Lease(Lease&&) noexcept = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease();

    // False: `transport` is not connected yet.
    bool reused() const { return reused_; }
    Transport& transport() { return *transport_; }
    // A new, unconnected one instead.
    void replace();
    void keep() { keep_ = true; }

   private:
    std::shared_ptr<ConnectionPool> pool_;
    std::unique_ptr<Transport> transport_;
    bool reused_ = false;
    bool keep_ = false;
  };

  ConnectionPool(asio::any_io_executor executor, std::size_t limit, std::function<std::unique_ptr<Transport>()> make);

  // Errors: cancelled, timeout.
  awaitable<Result<Lease>> acquire(AbortSource* abort, std::chrono::milliseconds timeout);
  // Idle connections are closed, now and from now on.
  void close();
  std::size_t open() const { return open_; }
  const asio::any_io_executor& executor() const { return executor_; }

 private:
  struct Waiter {
    explicit Waiter(const asio::any_io_executor& executor) : signal(executor) {}
    asio::steady_timer signal;
    std::unique_ptr<Transport> transport;  // handed over; null with granted: room for a new one
    bool granted = false;
  };

  std::unique_ptr<Transport> take_idle();
  void give_back(std::unique_ptr<Transport> transport);

  const asio::any_io_executor executor_;
  const std::size_t limit_;
  const std::function<std::unique_ptr<Transport>()> make_;
  std::vector<std::unique_ptr<Transport>> idle_;
  std::list<std::shared_ptr<Waiter>> waiters_;
  std::size_t open_ = 0;
  bool closed_ = false;
};

}  // namespace roost::net
