#include "net/transport.h"

#include <sys/socket.h>

#include <array>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>

namespace roost::net {

using boost::system::error_code;

// A name being looked up. getaddrinfo cannot be interrupted, so it fills this in on its own while connect() may leave
// early.
struct Transport::Lookup {
  explicit Lookup(const asio::any_io_executor& executor) : resolver(executor), done(executor) {
    done.expires_at(Deadline::Clock::time_point::max());
  }
  tcp::resolver resolver;
  asio::steady_timer done;  // cancelled when there is something to see
  error_code ec;
  std::vector<tcp::endpoint> endpoints;
  bool finished = false;
};

Transport::Transport(const asio::any_io_executor& executor, Url origin, asio::ssl::context* tls)
    : executor_(executor), origin_(std::move(origin)), socket_(executor), deadline_(executor) {
  if (tls != nullptr) tls_ = std::make_unique<asio::ssl::stream<tcp::socket&>>(socket_, *tls);
}

Transport::~Transport() = default;

std::string Transport::place() const {
  const bool v6 = origin_.host.find(':') != std::string::npos;
  return (v6 ? "[" + origin_.host + "]" : origin_.host) + ":" + std::to_string(origin_.port);
}

// Closing, not cancelling: a cancel that falls between two steps of a composed operation would be lost.
void Transport::arm(Deadline::Clock::time_point at) {
  expired_ = false;
  deadline_.arm(at, [this] {
    expired_ = true;
    close();
  });
}

void Transport::close() {
  closed_ = true;
  error_code ignored;
  socket_.close(ignored);
  if (lookup_) lookup_->done.cancel();
}

Result<void> Transport::conclude(const error_code& ec, std::string_view what) {
  deadline_.disarm();
  if (!ec && !closed_) return {};
  close();
  if (expired_) return {ErrorKind::timeout, place() + ": " + std::string(what) + " took too long"};
  return {ErrorKind::unavailable, place() + ": " + std::string(what) + " failed: " + ec.message()};
}

awaitable<Result<void>> Transport::connect(std::chrono::milliseconds timeout) {
  arm(Deadline::Clock::now() + timeout);
  Result<std::vector<tcp::endpoint>> endpoints = co_await look_up();
  if (!endpoints) co_return std::move(endpoints).error();
  Result<void> connected = co_await connect_any(*endpoints);
  if (connected && tls_) connected = co_await handshake();
  co_return connected;
}

awaitable<Result<std::vector<Transport::tcp::endpoint>>> Transport::look_up() {
  error_code ec;
  const auto address = asio::ip::make_address(origin_.host, ec);
  if (!ec) {
    std::vector<tcp::endpoint> literal(1, tcp::endpoint(address, origin_.port));
    co_return literal;
  }
  const auto lookup = std::make_shared<Lookup>(executor_);
  lookup_ = lookup;
  lookup->resolver.async_resolve(
      origin_.host, std::to_string(origin_.port),
      asio::bind_executor(executor_, [lookup](const error_code& error, const tcp::resolver::results_type& results) {
        lookup->ec = error;
        for (const auto& entry : results) lookup->endpoints.push_back(entry.endpoint());
        lookup->finished = true;
        lookup->done.cancel();
      }));
  while (!lookup->finished && !closed_) {
    error_code ignored;
    co_await lookup->done.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  lookup_ = nullptr;
  if (!lookup->finished) lookup->resolver.cancel();
  if (closed_ || lookup->ec) {
    Result<void> failed = conclude(lookup->ec ? lookup->ec : asio::error::operation_aborted, "looking up the name");
    co_return std::move(failed).error();
  }
  co_return std::move(lookup->endpoints);
}

awaitable<Result<void>> Transport::connect_any(const std::vector<tcp::endpoint>& endpoints) {
  error_code ec = asio::error::host_not_found;
  for (const tcp::endpoint& endpoint : endpoints) {
    ec = {};
    error_code ignored;
    socket_.close(ignored);
    socket_.open(endpoint.protocol(), ec);
    if (!ec) co_await socket_.async_connect(endpoint, asio::redirect_error(asio::use_awaitable, ec));
    if (!ec || closed_) break;
  }
  if (!ec && !closed_) {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    socket_.set_option(asio::socket_base::keep_alive(true), ignored);
    if (tls_) co_return Result<void>{};  // the deadline covers the handshake too
  }
  co_return conclude(ec, "connecting");
}

awaitable<Result<void>> Transport::handshake() {
  error_code ec;
  tls_->set_verify_mode(asio::ssl::verify_peer, ec);
  if (!ec) tls_->set_verify_callback(asio::ssl::host_name_verification(origin_.host), ec);
  error_code not_literal;
  asio::ip::make_address(origin_.host, not_literal);
  // Server name indication takes names only.
  if (not_literal) SSL_set_tlsext_host_name(tls_->native_handle(), origin_.host.c_str());
  if (!ec) {
    co_await tls_->async_handshake(asio::ssl::stream_base::client, asio::redirect_error(asio::use_awaitable, ec));
  }
  co_return conclude(ec, "the TLS handshake");
}

awaitable<Result<void>> Transport::write(std::string_view head, std::string_view body,
                                         std::chrono::milliseconds timeout) {
  std::array<asio::const_buffer, 2> pieces{asio::buffer(head.data(), head.size()),
                                           asio::buffer(body.data(), body.size())};
  error_code ec;
  // Piece by piece, so that the time-out is for a server that takes nothing, not for a long body.
  std::size_t skip = 0;
  const std::size_t total = head.size() + body.size();
  while (!ec && skip < total) {
    const bool in_head = skip < head.size();
    const asio::const_buffer rest = in_head ? pieces[0] + skip : pieces[1] + (skip - head.size());
    std::array<asio::const_buffer, 2> now{rest, in_head ? pieces[1] : asio::const_buffer()};
    arm(Deadline::Clock::now() + timeout);
    std::size_t sent = 0;
    if (tls_) {
      sent = co_await tls_->async_write_some(now, asio::redirect_error(asio::use_awaitable, ec));
    } else {
      sent = co_await socket_.async_write_some(now, asio::redirect_error(asio::use_awaitable, ec));
    }
    skip += sent;
    if (closed_) break;
  }
  if (ec && !closed_) {
    // Left open: a server that refuses a long request early answers before it stops reading.
    deadline_.disarm();
    co_return Error{ErrorKind::unavailable, place() + ": sending the request failed: " + ec.message(), {}, {}};
  }
  co_return conclude(ec, "sending the request");
}

awaitable<Result<std::size_t>> Transport::read_some(asio::mutable_buffer into, std::chrono::milliseconds timeout) {
  arm(Deadline::Clock::now() + timeout);
  error_code ec;
  std::size_t bytes = 0;
  if (tls_) {
    bytes = co_await tls_->async_read_some(into, asio::redirect_error(asio::use_awaitable, ec));
  } else {
    bytes = co_await socket_.async_read_some(into, asio::redirect_error(asio::use_awaitable, ec));
  }
  if (ec == asio::error::eof && !closed_) {
    deadline_.disarm();
    co_return std::size_t{0};
  }
  Result<void> ended = conclude(ec, "reading the answer");
  if (!ended) co_return std::move(ended).error();
  co_return bytes;
}

bool Transport::stale() {
  if (closed_) return true;
  char byte = 0;
  const ssize_t n = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (n < 0) return errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
  // TLS sends session tickets at any time; only the end of the stream says something there.
  return n == 0 || !tls_;
}

}  // namespace roost::net
