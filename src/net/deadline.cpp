#include "net/deadline.h"

#include <utility>

namespace roost::net {

Deadline::Deadline(const boost::asio::any_io_executor& executor) : timer_(executor) {}

void Deadline::arm(Clock::time_point at, std::function<void()> on_expiry) {
  disarm();
  state_->on_expiry = std::move(on_expiry);
  timer_.expires_at(at);
  timer_.async_wait([state = state_, generation = state_->generation](const boost::system::error_code& ec) {
    if (ec || state->generation != generation) return;
    state->expired = true;
    if (auto callback = std::exchange(state->on_expiry, nullptr)) callback();
  });
}

bool Deadline::disarm() {
  ++state_->generation;
  state_->on_expiry = nullptr;
  timer_.cancel();
  return std::exchange(state_->expired, false);
}

}  // namespace roost::net
