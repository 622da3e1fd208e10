#include "net/wire.h"

#include <sys/socket.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>

namespace roost::net {

namespace asio = boost::asio;
using boost::system::error_code;

void Pieces::add(std::string_view piece) {
  if (piece.empty()) return;
  ROOST_CHECK(count_ < buffers_.size());
  buffers_[count_++] = asio::const_buffer(piece.data(), piece.size());
}

void Pieces::consume(std::size_t bytes) {
  while (first_ < count_ && bytes >= buffers_[first_].size()) bytes -= buffers_[first_++].size();
  if (first_ < count_) buffers_[first_] += bytes;
}

Wire::Wire(tcp::socket socket, const asio::any_io_executor& executor)
    : socket_(std::move(socket)), deadline_(executor) {
  error_code ignored;
  socket_.non_blocking(true, ignored);
  socket_.set_option(tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
}

asio::awaitable<Wire::Ready> Wire::wait(tcp::socket::wait_type what, Clock::time_point deadline) {
  ROOST_CHECK(!waiting_, "one wait at a time");
  waiting_ = true;
  woken_ = false;
  deadline_.arm(deadline, [this] {
    error_code ignored;
    socket_.cancel(ignored);
  });
  error_code ec;
  co_await socket_.async_wait(what, asio::redirect_error(asio::use_awaitable, ec));
  waiting_ = false;
  const bool expired = deadline_.disarm();
  if (woken_) co_return Ready::woken;
  if (!ec) co_return Ready::ready;
  co_return expired ? Ready::timeout : Ready::failed;
}

void Wire::wake() {
  if (!waiting_) return;
  woken_ = true;
  error_code ignored;
  socket_.cancel(ignored);
}

Wire::Read Wire::read_now(asio::mutable_buffer into) {
  error_code ec;
  const std::size_t bytes = socket_.read_some(asio::mutable_buffer(into), ec);
  if (ec == asio::error::would_block || ec == asio::error::try_again || ec == asio::error::interrupted)
    return {0, true};
  return {bytes, !ec};
}

Wire::Read Wire::peek() {
  char byte = 0;
  const ssize_t n = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (n > 0) return {1, true};
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return {0, true};
  return {0, false};
}

asio::awaitable<Result<void>> Wire::write(Pieces pieces, std::chrono::milliseconds timeout) {
  while (!pieces.empty()) {
    error_code ec;
    const std::size_t written = socket_.write_some(pieces, ec);
    if (!ec) {
      pieces.consume(written);
      continue;
    }
    if (ec == asio::error::interrupted) continue;
    if (ec != asio::error::would_block && ec != asio::error::try_again) {
      co_return Error{ErrorKind::cancelled, "the client has left: " + ec.message(), {}, {}};
    }
    const Ready ready = co_await wait(tcp::socket::wait_write, Clock::now() + timeout);
    if (ready == Ready::timeout) {
      co_return Error{ErrorKind::cancelled, "the client did not read the answer in time", {}, {}};
    }
    if (ready != Ready::ready) co_return Error{ErrorKind::cancelled, "the client has left", {}, {}};
  }
  co_return Result<void>{};
}

void Wire::shutdown_send() {
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
}

void Wire::close() {
  error_code ignored;
  socket_.close(ignored);
}

}  // namespace roost::net
