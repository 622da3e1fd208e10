// A server and a client of our own on loopback, for tests of what speaks HTTP.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/turn_error.h"
#include "fakes.h"
#include "net/http_client.h"
#include "net/http_server.h"
#include "net/sse.h"

namespace roost::test {

// Serves `router` on a free port until stopped.
class StubServer {
 public:
  StubServer(asio::io_context& context, const net::Router& router) {
    net::HttpServer::Options options;
    options.connection.render_error = [](const Error& e) { return agent::render_turn_error(e); };
    server_ = std::make_unique<net::HttpServer>(context, router, options);
    const auto started = server_->start();
    EXPECT_TRUE(started.ok());
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()); }
  asio::awaitable<void> stop() { return server_->stop(std::chrono::milliseconds(1000)); }

 private:
  std::unique_ptr<net::HttpServer> server_;
};

inline net::ClientRequest post(std::string target, std::string body, bool events = false) {
  net::ClientRequest request;
  request.method = "POST";
  request.target = std::move(target);
  request.body = std::move(body);
  if (events) request.headers.add("Accept", "text/event-stream");
  return request;
}

}  // namespace roost::test
