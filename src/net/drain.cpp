#include <boost/asio/post.hpp>

#include "net/http_server.h"

namespace roost::net {

Drain::Subscription::Subscription(std::shared_ptr<State> state, std::list<Listener>::iterator at)
    : state_(std::move(state)), at_(at) {}

Drain::Subscription& Drain::Subscription::operator=(Subscription&& other) noexcept {
  if (this != &other) {
    reset();
    state_ = std::move(other.state_);
    at_ = other.at_;
  }
  return *this;
}

void Drain::Subscription::reset() {
  const std::shared_ptr<State> state = std::move(state_);
  if (!state) return;
  const std::lock_guard lock(state->mutex);
  state->listeners.erase(at_);
}

void Drain::begin() {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->draining.exchange(true)) return;
    for (const Listener& listener : state_->listeners) asio::post(listener.executor, listener.callback);
  }
  source_.request("draining");
}

Drain::Subscription Drain::subscribe(asio::any_io_executor executor, std::function<void()> callback) {
  const std::lock_guard lock(state_->mutex);
  if (state_->draining) asio::post(executor, callback);
  state_->listeners.push_back({std::move(executor), std::move(callback)});
  return {state_, std::prev(state_->listeners.end())};
}

}  // namespace roost::net
