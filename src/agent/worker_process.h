// The shell of a worker: one event loop on one thread that serves sockets handed to it by the supervisor, or, without a
// host, accepts them itself (`roost worker --listen`). It knows places, draining and the channel; what a turn is made
// of is the router's.
//
//   asio::io_context io;
//   net::Router router;             // POST /turn, ...
//   auto worker = WorkerProcess::create(io, router, options, environment);
//   return (*worker)->run();        // reports ready, serves until drained
//
// Threads: everything runs on the thread that calls run().
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/config.h"
#include "handoff/inherit.h"
#include "handoff/message.h"
#include "net/http_server.h"

namespace roost::agent {

namespace asio = boost::asio;

struct WorkerOptions {
  std::string listen;                  // "host:port" or ":port": serve without a host; ignored under one
  std::uint32_t turns_per_worker = 1;  // S without a host; under one it is the page's
  std::chrono::milliseconds keepalive{75'000};
  std::chrono::milliseconds drain{20'000};
  std::chrono::milliseconds stats_interval{1'000};
  std::size_t max_body = 8 * 1024 * 1024;
  std::size_t max_waiting = 1024;  // turns that wait for a place at once; more are refused with 429
  std::function<net::Response(const Error&)> render_error;
  std::function<void(handoff::Stats&)> extend_stats;  // fills in what only the turns' side knows
  bool handle_signals = true;  // SIGTERM drains; SIGINT too, but under a host it is the host's affair
};

// From the settings: host.turns_per_worker, host.keepalive_s, host.drain_s, host.stats_interval_ms, worker.listen,
// worker.max_body. bad_config when worker.listen is set and turns_per_worker is not.
Result<WorkerOptions> worker_options(const Config& config);

class WorkerProcess {
 public:
  // `router` lives longer than the process's connections; the context outlives this object. Errors: bad_config (started
  // without a host and without --listen, a port in use, an inheritance that does not fit), io.
  static Result<std::unique_ptr<WorkerProcess>> create(asio::io_context& context, const net::Router& router,
                                                       WorkerOptions options,
                                                       const handoff::EnvironmentLookup& environment);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;

  // Serves until drained, then returns 0 (also when the drain took too long, which is logged).
  int run();
  // Finishes the running turns and lets run() end. Also on SIGTERM, the supervisor's order, or its end.
  void begin_drain();

  std::uint16_t port() const;  // with --listen
  bool under_host() const;
  std::size_t connections() const;

  struct Impl;

 private:
  explicit WorkerProcess(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace roost::agent
