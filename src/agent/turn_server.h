// The worker's HTTP routes: turns, cancel, sessions, health. Knows nothing of how its sockets came here (hand-off or a
// listener), so that both answer alike, and does not count places (WorkerProcess does, before a handler runs).
//
// Used from one executor. Must outlive every exchange it serves.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "agent/sse_sink.h"
#include "agent/turn.h"
#include "agent/turn_registry.h"
#include "net/http_server.h"

namespace roost::agent {

class TurnServer {
 public:
  struct Options {
    std::chrono::milliseconds keepalive = kKeepaliveInterval;
  };
  TurnServer(TurnServices services, Options options);
  TurnServer(const TurnServer&) = delete;

  void add_routes(net::Router& router);
  std::size_t in_flight() const { return registry_.count(); }
  // Ends every turn ("shutting_down"); they answer before their handlers return.
  void abort_all(const std::string& reason) { registry_.abort_all(reason); }

 private:
  asio::awaitable<void> turn(net::Exchange& exchange);
  asio::awaitable<void> run_turn(net::Exchange& exchange, TurnRequest request);
  asio::awaitable<void> cancel(net::Exchange& exchange);
  asio::awaitable<void> session(net::Exchange& exchange);

  TurnServices services_;
  Options options_;
  TurnRegistry registry_;
};

}  // namespace roost::agent
