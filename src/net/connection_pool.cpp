#include "net/connection_pool.h"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace roost::net {

ConnectionPool::Lease::Lease(std::shared_ptr<ConnectionPool> pool, std::unique_ptr<Transport> reused)
    : pool_(std::move(pool)), transport_(std::move(reused)), reused_(transport_ != nullptr) {
  if (!transport_) transport_ = pool_->make_();
}

ConnectionPool::Lease::~Lease() {
  if (!pool_) return;
  if (!keep_) transport_.reset();
  pool_->give_back(std::move(transport_));
}

void ConnectionPool::Lease::replace() {
  transport_ = pool_->make_();
  reused_ = false;
}

ConnectionPool::ConnectionPool(asio::any_io_executor executor, std::size_t limit,
                               std::function<std::unique_ptr<Transport>()> make)
    : executor_(std::move(executor)), limit_(std::max<std::size_t>(limit, 1)), make_(std::move(make)) {}

awaitable<Result<ConnectionPool::Lease>> ConnectionPool::acquire(AbortSource* abort,
                                                                 std::chrono::milliseconds timeout) {
  const std::shared_ptr<ConnectionPool> self = shared_from_this();
  if (std::unique_ptr<Transport> idle = take_idle()) co_return Lease(self, std::move(idle));
  if (open_ < limit_) {
    ++open_;
    co_return Lease(self, nullptr);
  }

  const auto waiter = std::make_shared<Waiter>(executor_);
  waiters_.push_back(waiter);
  waiter->signal.expires_after(timeout);
  AbortSource::Subscription subscription;
  if (abort != nullptr) {
    subscription = abort->subscribe([weak = std::weak_ptr(waiter)] {
      if (const auto strong = weak.lock()) strong->signal.cancel();
    });
  }
  const bool aborted_before = abort != nullptr && abort->requested();
  if (!aborted_before) {
    boost::system::error_code ignored;
    co_await waiter->signal.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  waiters_.remove(waiter);
  const bool aborted = abort != nullptr && abort->requested();
  if (waiter->granted) {
    Lease lease(self, std::move(waiter->transport));
    if (!aborted) co_return lease;
    if (lease.reused()) lease.keep();
  }
  if (aborted) co_return Error{ErrorKind::cancelled, "cancelled while waiting for a connection", {}, {}};
  co_return Error{ErrorKind::timeout, "no connection of the client's pool became free in time", {}, {}};
}

// The one used last, which the server most likely still has; those it has closed are dropped on the way.
std::unique_ptr<Transport> ConnectionPool::take_idle() {
  while (!idle_.empty()) {
    std::unique_ptr<Transport> transport = std::move(idle_.back());
    idle_.pop_back();
    if (!transport->stale()) return transport;
    --open_;
  }
  return nullptr;
}

void ConnectionPool::give_back(std::unique_ptr<Transport> transport) {
  if (!waiters_.empty()) {
    const std::shared_ptr<Waiter> waiter = waiters_.front();
    waiters_.pop_front();
    waiter->transport = std::move(transport);
    waiter->granted = true;
    waiter->signal.cancel();
    return;
  }
  if (transport && !closed_) {
    idle_.push_back(std::move(transport));
  } else {
    --open_;
  }
}

void ConnectionPool::close() {
  closed_ = true;
  open_ -= idle_.size();
  idle_.clear();
}

}  // namespace roost::net
