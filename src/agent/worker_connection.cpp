#include "agent/worker_connection.h"

#include <sys/socket.h>

#include <array>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <span>
#include <string_view>

#include "handoff/peek.h"
#include "net/deadline.h"

namespace roost::agent {

namespace asio = boost::asio;
using net::NextRequest;

namespace {

// A next head that is not complete by then is served as it comes; its turn waits for a place instead of moving
// elsewhere.
constexpr auto kHeadTime = std::chrono::seconds(2);

// The same answer as the supervisor's own, so that a client sees no difference.
net::Response overloaded() {
  const ErrorKindInfo& about = info(ErrorKind::overloaded);
  net::Response response = net::Response::json(about.status, json::object{{"error", json::string_view(about.name)}});
  response.headers.set("Retry-After", std::to_string(about.retry_after_s));
  response.headers.set("Connection", "close");
  return response;
}

struct Seen {
  std::size_t bytes = 0;  // 0: nothing, or the peer is gone
  handoff::PeekedHead head;
};

Seen peek(int fd) {
  thread_local std::array<char, handoff::kPeekBytes> buffer;
  const ssize_t size = ::recv(fd, buffer.data(), buffer.size(), MSG_PEEK | MSG_DONTWAIT);
  if (size <= 0) return {};
  const auto bytes = static_cast<std::size_t>(size);
  Seen seen{bytes, handoff::peek_head({buffer.data(), bytes})};
  seen.head.session_id = {};  // points into the buffer
  return seen;
}

void set_low_water(int fd, std::size_t bytes) {
  const int value = static_cast<int>(bytes);
  ::setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &value, sizeof value);
}

// Until more than `seen` bytes are there. False: the time is over, or the socket failed.
net::awaitable<bool> wait_for_more(net::tcp::socket& socket, std::size_t seen, net::Deadline::Clock::time_point until) {
  const auto executor = co_await asio::this_coro::executor;
  net::Deadline deadline(executor);
  deadline.arm(until, [&socket] {
    boost::system::error_code ignored;
    socket.cancel(ignored);
  });
  set_low_water(socket.native_handle(), seen + 1);
  boost::system::error_code ec;
  co_await socket.async_wait(net::tcp::socket::wait_read, asio::redirect_error(asio::use_awaitable, ec));
  deadline.disarm();
  set_low_water(socket.native_handle(), 1);
  co_return !ec;
}

}  // namespace

WorkerConnection::WorkerConnection(WorkerShared shared, bool reserved, bool return_when_idle)
    : shared_(shared), place_(reserved ? Place::reserved : Place::none), return_when_idle_(return_when_idle) {}

WorkerConnection::~WorkerConnection() {
  if (place_ == Place::reserved) shared_.places.release_reservation();
  if (place_ == Place::in_flight) shared_.places.end_turn();
}

void WorkerConnection::hook_into(net::ConnectionOptions& options) {
  options.on_head = [this](const net::Request& head) { return on_head(head); };
  options.on_end = [this] { on_end(); };
  options.before_next = [this](net::tcp::socket& socket) { return before_next(socket); };
  options.before_handler = [this](net::Exchange& exchange) { return before_handler(exchange); };
  if (return_when_idle_) options.when_idle = [this] { return when_idle(); };
  options.drain = &shared_.drain;
}

std::optional<net::Response> WorkerConnection::on_head(const net::Request& head) {
  if (!handoff::is_turn(head.method, head.target)) {
    // A place was taken for a turn that this is not: supervisor and parser disagree about the head.
    on_end();
    return std::nullopt;
  }
  if (place_ == Place::in_flight) return std::nullopt;  // taken when its head was peeked
  if (place_ == Place::reserved && shared_.places.start_reserved()) {
    place_ = Place::in_flight;
    return std::nullopt;
  }
  if (shared_.places.try_start()) {
    place_ = Place::in_flight;
    return std::nullopt;
  }
  place_ = Place::none;
  if (!shared_.under_host || shared_.places.waiting() >= shared_.max_waiting) return overloaded();
  place_ = Place::waiting;
  return std::nullopt;
}

void WorkerConnection::on_end() {
  const Place place = std::exchange(place_, Place::none);
  if (place == Place::reserved) shared_.places.release_reservation();
  if (place == Place::in_flight) shared_.places.end_turn();
}

net::awaitable<NextRequest> WorkerConnection::before_next(net::tcp::socket& socket) {
  const auto until = net::Deadline::Clock::now() + kHeadTime;
  std::size_t before = 0;
  while (true) {
    const Seen seen = peek(socket.native_handle());
    if (seen.head.complete) {
      if (!seen.head.turn) co_return NextRequest::serve;
      if (shared_.places.try_start()) {
        place_ = Place::in_flight;
        co_return NextRequest::serve;
      }
      if (!shared_.under_host || shared_.drain.draining()) co_return NextRequest::serve;
      why_ = handoff::Returned::Why::at_capacity;
      co_return NextRequest::give_back;
    }
    // Gone, too long, or woken without a new byte (the peer has closed): the parser deals with it.
    if (seen.bytes == before || seen.bytes >= handoff::kPeekBytes) co_return NextRequest::serve;
    before = seen.bytes;
    const bool more = co_await wait_for_more(socket, seen.bytes, until);
    if (!more) co_return NextRequest::serve;
  }
}

net::awaitable<void> WorkerConnection::before_handler(net::Exchange& exchange) {
  if (place_ != Place::waiting) co_return;
  asio::steady_timer granted(exchange.executor(), asio::steady_timer::time_point::max());
  const auto waiter = shared_.places.wait([this, &granted] {
    place_ = Place::in_flight;
    granted.cancel();
  });
  const auto subscription = exchange.aborted().subscribe([&granted] { granted.cancel(); });
  boost::system::error_code ec;
  // A place may have come between the head and here.
  shared_.places.admit();
  if (place_ == Place::waiting && !exchange.aborted().requested()) {
    co_await granted.async_wait(asio::redirect_error(asio::use_awaitable, ec));
  }
  if (place_ == Place::waiting) {
    shared_.places.cancel(waiter);
    place_ = Place::none;
  }
}

NextRequest WorkerConnection::when_idle() {
  if (shared_.drain.draining()) return NextRequest::serve;
  why_ = handoff::Returned::Why::idle;
  return NextRequest::give_back;
}

}  // namespace roost::agent
