// A whole engine server on the fakes, and a client for it. No model.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/server.h"
#include "core/json.h"
#include "fake_text_model.h"
#include "net/http_client.h"
#include "net/sse.h"

namespace roost::api {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr auto kDeadline = 30s;  // far beyond what a loaded machine needs; reached only by a hang

inline kv::KvTraits fake_traits() {
  kv::KvTraits t;
  t.cells = 4096;
  t.n_seq = 24;
  t.bytes_per_cell = 16;
  return t;
}

struct ServerFixture {
  explicit ServerFixture(engine::EngineOptions options = {},
                         std::vector<std::pair<std::string, std::string>> flags = {})
      : kv(fake_traits()),
        model(kv, {1000, 2048, 0}),
        text(model),
        config(*Config::load(
            kEngine, {flags.begin(), flags.end()}, [](auto) { return std::nullopt; }, "", "test")),
        engine(kv, model, clock, options),
        context{engine, text, config, clock, {}, "boot1", 1.0, config.text("engine.api_key"), [this] { ++shutdowns; }},
        router(make_router(context)),
        server(io, router, {"127.0.0.1", 0, 64, connection_options(context, 1 << 20, &drain)}) {
    EXPECT_TRUE(server.start().ok());
    engine_thread = std::thread([this] { engine.run(); });
    io_thread = std::thread([this] { io.run(); });
  }
  ~ServerFixture() {
    auto stopped = asio::co_spawn(io, server.stop(0ms), asio::use_future);
    stopped.wait_for(kDeadline);
    io.stop();
    io_thread.join();
    engine.stop();
    engine_thread.join();
  }

  net::Response call(std::string method, std::string target, std::string body = "", net::Headers headers = {}) {
    asio::io_context client_io;
    net::HttpClient client(client_io.get_executor(),
                           *net::parse_url("http://127.0.0.1:" + std::to_string(server.port())), {});
    net::ClientRequest request{std::move(method), std::move(target), std::move(headers), std::move(body)};
    net::Response answer;
    auto fetch = [&]() -> asio::awaitable<void> {
      auto reply = co_await client.fetch(request);
      EXPECT_TRUE(reply.ok()) << (reply.ok() ? "" : reply.error().message);
      if (reply) answer = *std::move(reply);
    };
    asio::co_spawn(client_io, fetch(), asio::detached);
    client_io.run_for(kDeadline);
    return answer;
  }

  json::object json_call(std::string method, std::string target, std::string body = "", int status = 200) {
    const net::Response response = call(std::move(method), target, std::move(body));
    EXPECT_EQ(response.status, status) << target << " " << response.body;
    return json::parse(response.body).as_object();
  }

  // Polls the engine's view until `holds`.
  bool eventually(const std::function<bool(const engine::EngineView&)>& holds) {
    const auto end = std::chrono::steady_clock::now() + kDeadline;
    while (std::chrono::steady_clock::now() < end) {
      if (holds(*engine.view())) return true;
      std::this_thread::sleep_for(2ms);
    }
    return false;
  }

  kv::FakeKvPort kv;
  engine::FakeModel model;
  FakeText text;
  SystemClock clock;
  Config config;
  engine::Engine engine;
  std::atomic<int> shutdowns{0};
  asio::io_context io;
  net::Drain drain;
  ApiContext context;
  net::Router router;
  net::HttpServer server;
  std::thread engine_thread, io_thread;
};

inline std::vector<net::SseEvent> events_of(const net::Response& response) {
  net::SseParser parser;
  std::vector<net::SseEvent> events;
  parser.feed(response.body, events);
  return events;
}

}  // namespace roost::api
