#include "net/client_watch.h"

#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <utility>

namespace roost::net {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using boost::system::error_code;

constexpr auto kPollInterval = std::chrono::milliseconds(50);

// Kept alive by its pending wait; `socket` is null once stopped.
struct ClientWatch::State : std::enable_shared_from_this<ClientWatch::State> {
  State(tcp::socket& watched, const asio::any_io_executor& on, std::function<void()> callback)
      : socket(&watched), executor(on), timer(on), on_gone(std::move(callback)) {}

  void wait_readable() {
    socket->async_wait(tcp::socket::wait_read,
                       asio::bind_executor(executor, [self = shared_from_this()](const error_code& ec) {
                         if (self->socket != nullptr && !ec) self->look();
                       }));
  }

  void look() {
    char byte = 0;
    const ssize_t n = ::recv(socket->native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n > 0) {
      poll_later();
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) {
      wait_readable();
    } else {
      gone();
    }
  }

  void poll_later() {
    timer.expires_after(kPollInterval);
    timer.async_wait([self = shared_from_this()](const error_code& ec) {
      if (self->socket != nullptr && !ec) self->poll_now();
    });
  }

  void poll_now() {
    pollfd entry{socket->native_handle(), POLLRDHUP, 0};
    const int ready = ::poll(&entry, 1, 0);
    if (ready > 0 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0) {
      gone();
    } else {
      poll_later();
    }
  }

  void gone() {
    if (auto callback = std::exchange(on_gone, nullptr)) callback();
  }

  tcp::socket* socket;
  asio::any_io_executor executor;
  asio::steady_timer timer;
  std::function<void()> on_gone;
};

ClientWatch::ClientWatch(tcp::socket& socket, const asio::any_io_executor& executor, std::function<void()> on_gone)
    : state_(std::make_shared<State>(socket, executor, std::move(on_gone))) {
  state_->wait_readable();
}

void ClientWatch::stop() {
  tcp::socket* socket = std::exchange(state_->socket, nullptr);
  if (socket == nullptr) return;
  state_->on_gone = nullptr;
  state_->timer.cancel();
  error_code ignored;
  socket->cancel(ignored);
}

}  // namespace roost::net
