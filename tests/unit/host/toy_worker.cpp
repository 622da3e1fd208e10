// A worker of the host's tests: the real shell (agent/worker_process.h) around a router of a few toy routes.
//   POST /turn, /v1/turn   the body as it came, prefixed by the worker's pid; header X-Wait-Ms waits before; X-Stream:
//   N streams
//                          N server-sent events, X-Wait-Ms apart
//   GET /health            "ok"
//   GET /pid               the worker's pid
//   POST /block            blocks the loop for X-Wait-Ms
#include <unistd.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "agent/worker_process.h"
#include "core/log.h"
#include "net/sse.h"

namespace {

namespace asio = boost::asio;
namespace net = roost::net;
using net::awaitable;

long number_header(const net::Request& request, std::string_view name) {
  const std::string* value = request.headers.find(name);
  return value == nullptr ? 0 : std::strtol(value->c_str(), nullptr, 10);
}

awaitable<void> wait(net::Exchange& exchange, long ms) {
  if (ms <= 0) co_return;
  asio::steady_timer timer(exchange.executor(), std::chrono::milliseconds(ms));
  const auto subscription = exchange.aborted().subscribe([&timer] { timer.cancel(); });
  boost::system::error_code ec;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ec));
}

awaitable<void> stream(net::Exchange& exchange, long events, long ms) {
  net::Headers headers;
  headers.add("Content-Type", "text/event-stream");
  const auto started = co_await exchange.start(200, std::move(headers));
  if (!started) co_return;
  for (long i = 0; i < events; ++i) {
    const std::string event = net::format_sse(std::to_string(i), "text");
    const auto written = co_await exchange.write(event);
    if (!written) co_return;
    co_await wait(exchange, ms);
  }
  const std::string done = net::format_sse("{}", "done");
  (void)co_await exchange.write(done);
  (void)co_await exchange.finish();
}

awaitable<void> turn(net::Exchange& exchange) {
  const long ms = number_header(exchange.request(), "X-Wait-Ms");
  const long events = number_header(exchange.request(), "X-Stream");
  if (events > 0) {
    co_await stream(exchange, events, ms);
    co_return;
  }
  co_await wait(exchange, ms);
  net::Response response = net::Response::text(200, std::to_string(::getpid()) + "\n" + exchange.request().body);
  (void)co_await exchange.send(std::move(response));
}

awaitable<void> health(net::Exchange& exchange) {
  net::Response response = net::Response::text(200, "ok");
  (void)co_await exchange.send(std::move(response));
}

awaitable<void> pid(net::Exchange& exchange) {
  net::Response response = net::Response::text(200, std::to_string(::getpid()));
  (void)co_await exchange.send(std::move(response));
}

awaitable<void> block(net::Exchange& exchange) {
  std::this_thread::sleep_for(std::chrono::milliseconds(number_header(exchange.request(), "X-Wait-Ms")));
  net::Response response = net::Response::text(200, "done");
  (void)co_await exchange.send(std::move(response));
}

net::Response render_error(const roost::Error& error) {
  return net::Response::json(error.status(), roost::json::object{{"error", roost::json::string_view(error.name())}});
}

}  // namespace

int main(int argc, char** argv) {
  if (const char* code = std::getenv("TOY_EXIT")) return std::atoi(code);
  roost::log::init("toy", roost::log::Format::json, roost::log::Level::error);
  asio::io_context context;
  net::Router router;
  router.add("POST", "/turn", turn);
  router.add("POST", "/v1/turn", turn);
  router.add("POST", "/block", block);
  router.add("GET", "/health", health);
  router.add("GET", "/pid", pid);
  roost::agent::WorkerOptions options;
  options.render_error = render_error;
  options.stats_interval = std::chrono::milliseconds(100);
  options.drain = std::chrono::seconds(5);
  if (argc > 1) {
    options.listen = argv[1];
    options.turns_per_worker = argc > 2 ? static_cast<std::uint32_t>(std::atoi(argv[2])) : 1;
  }
  auto worker = roost::agent::WorkerProcess::create(context, router, options, roost::Config::process_environment());
  if (!worker) {
    std::fprintf(stderr, "toy worker: %s\n", worker.error().message.c_str());
    return 78;
  }
  if ((*worker)->port() != 0) {
    std::printf("%d\n", (*worker)->port());
    std::fflush(stdout);
  }
  return (*worker)->run();
}
