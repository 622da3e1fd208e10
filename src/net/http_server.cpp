#include "net/http_server.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <map>

#include "core/log.h"
#include "net/connection.h"

namespace roost::net {
namespace {

using boost::system::error_code;
using Clock = std::chrono::steady_clock;

// After a failed accept (out of descriptors, say): trying again at once would spin.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

std::string place(const std::string& host, std::uint16_t port) {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Result<tcp::endpoint> find_endpoint(asio::io_context& context, const std::string& host, std::uint16_t port) {
  error_code ec;
  const auto address = asio::ip::make_address(host, ec);
  if (!ec) return tcp::endpoint(address, port);
  tcp::resolver resolver(context);
  const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, ec);
  if (ec || found.empty()) {
    return {ErrorKind::bad_config, "the host '" + host + "' to listen on is unknown: " + ec.message()};
  }
  return found.begin()->endpoint();
}

Error listen_error(const std::string& host, std::uint16_t port, const error_code& ec) {
  const std::string where = place(host, port);
  if (ec == asio::error::address_in_use) {
    return {ErrorKind::bad_config,
            where + " is already in use: stop the other process or choose another port with --port",
            {},
            {}};
  }
  if (ec == asio::error::access_denied) {
    return {ErrorKind::bad_config,
            "no permission to listen on " + where + ": choose a port above 1023 with --port",
            {},
            {}};
  }
  return {ErrorKind::bad_config, "cannot listen on " + where + ": " + ec.message(), {}, {}};
}

// Waits on one strand until notify(), or a time. May wake early: callers look again at what they wait for.
class Signal {
 public:
  explicit Signal(const asio::any_io_executor& executor) : timer_(executor) {}
  awaitable<void> wait(Clock::time_point until) {
    timer_.expires_at(until);
    error_code ignored;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  awaitable<void> wait() { return wait(Clock::time_point::max()); }
  void notify() { timer_.cancel(); }

 private:
  asio::steady_timer timer_;
};

}  // namespace

// Everything but `count` and `bound_port` is touched on `strand` only (start() runs before anything is on it).
struct HttpServer::Impl : std::enable_shared_from_this<HttpServer::Impl> {
  Impl(asio::io_context& io, const Router& routes, Options settings)
      : context(io),
        router(routes),
        options(std::move(settings)),
        strand(asio::make_strand(io)),
        acceptor(strand),
        room(strand),
        one_less(strand) {}

  Result<void> listen();
  awaitable<void> accept_loop();
  void add(tcp::socket socket, asio::any_io_executor executor);
  void remove(std::uint64_t id);
  void stop_accepting();
  awaitable<void> stop(std::chrono::milliseconds grace);
  void drain_all();
  void abort_all();

  asio::io_context& context;
  const Router& router;
  const Options options;
  const asio::any_io_executor strand;
  tcp::acceptor acceptor;
  Signal room;      // the accept loop waits for a connection to end
  Signal one_less;  // stop() waits for the connections to end
  std::map<std::uint64_t, std::shared_ptr<Connection>> open;
  std::uint64_t next_id = 0;
  bool stopping = false;
  std::atomic<std::size_t> count{0};
  std::uint16_t bound_port = 0;
};

Result<void> HttpServer::Impl::listen() {
  ROOST_TRY(endpoint, find_endpoint(context, options.host, options.port));
  error_code ec;
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (!ec) bound_port = acceptor.local_endpoint(ec).port();
  if (!ec) return {};
  error_code ignored;
  acceptor.close(ignored);
  return listen_error(options.host, options.port, ec);
}

awaitable<void> HttpServer::Impl::accept_loop() {
  while (!stopping) {
    if (open.size() >= options.max_connections) {
      co_await room.wait();
      continue;
    }
    const asio::any_io_executor executor = asio::make_strand(context);
    tcp::socket socket(executor);
    error_code ec;
    co_await acceptor.async_accept(socket, asio::redirect_error(asio::use_awaitable, ec));
    if (stopping) co_return;
    if (!ec) {
      add(std::move(socket), executor);
    } else if (ec != asio::error::connection_aborted) {
      log::warn("accept_failed", {{"message", ec.message()}, {"open", open.size()}});
      co_await room.wait(Clock::now() + kAcceptPause);
    }
  }
}

namespace {

// Keeps the server's inside alive until the connection has ended.
template <class Impl>
awaitable<void> run_connection(std::shared_ptr<Impl> server, std::shared_ptr<Connection> connection, std::uint64_t id) {
  (void)co_await connection->run();
  asio::post(server->strand, [server, id] { server->remove(id); });
}

template <class Impl>
awaitable<void> run_accept_loop(std::shared_ptr<Impl> server) {
  co_await server->accept_loop();
}

template <class Impl>
awaitable<void> run_stop(std::shared_ptr<Impl> server, std::chrono::milliseconds grace) {
  co_await server->stop(grace);
}

}  // namespace

void HttpServer::Impl::add(tcp::socket socket, asio::any_io_executor executor) {
  auto connection = std::make_shared<Connection>(std::move(socket), executor, router, options.connection);
  const std::uint64_t id = next_id++;
  open.emplace(id, connection);
  ++count;
  asio::co_spawn(executor, run_connection(shared_from_this(), std::move(connection), id), asio::detached);
}

void HttpServer::Impl::remove(std::uint64_t id) {
  open.erase(id);
  --count;
  room.notify();
  one_less.notify();
}

void HttpServer::Impl::stop_accepting() {
  stopping = true;
  error_code ignored;
  acceptor.close(ignored);
  room.notify();
}

void HttpServer::Impl::drain_all() {
  for (const auto& [id, connection] : open) {
    asio::post(connection->executor(), [connection = connection] { connection->begin_drain(); });
  }
}

void HttpServer::Impl::abort_all() {
  for (const auto& [id, connection] : open) {
    asio::post(connection->executor(), [connection = connection] { connection->abort("shutting_down"); });
  }
}

awaitable<void> HttpServer::Impl::stop(std::chrono::milliseconds grace) {
  const auto deadline = Clock::now() + grace;
  stop_accepting();
  drain_all();
  while (!open.empty() && Clock::now() < deadline) co_await one_less.wait(deadline);
  abort_all();
  while (!open.empty()) co_await one_less.wait();
}

HttpServer::HttpServer(asio::io_context& context, const Router& router, Options options)
    : impl_(std::make_shared<Impl>(context, router, std::move(options))) {}

HttpServer::~HttpServer() {
  asio::post(impl_->strand, [impl = impl_] {
    impl->stop_accepting();
    impl->abort_all();
  });
}

Result<void> HttpServer::start() {
  ROOST_TRY_VOID(impl_->listen());
  asio::co_spawn(impl_->strand, run_accept_loop(impl_), asio::detached);
  return {};
}

std::uint16_t HttpServer::port() const { return impl_->bound_port; }

awaitable<void> HttpServer::stop(std::chrono::milliseconds grace) {
  return asio::co_spawn(impl_->strand, run_stop(impl_, grace), asio::use_awaitable);
}

std::size_t HttpServer::connections() const { return impl_->count; }

}  // namespace roost::net
