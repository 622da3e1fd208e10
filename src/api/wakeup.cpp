#include "api/wakeup.h"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace roost::api {

namespace asio = boost::asio;

void Wakeup::notify() {
  asio::post(executor_, [self = shared_from_this()] { self->signal(); });
}

void Wakeup::signal() {
  signalled_ = true;
  timer_.cancel();
}

asio::awaitable<void> Wakeup::wait(Time deadline) {
  // The coroutine may be destroyed while it waits; the timer must not go before its handler.
  const auto self = shared_from_this();
  if (!signalled_) {
    timer_.expires_at(deadline);
    boost::system::error_code ec;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ec));
  }
  signalled_ = false;
}

}  // namespace roost::api
