#include <gtest/gtest.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <latch>

#include "test_server.h"

namespace roost::net::testing {
namespace {

class DrainTest : public ::testing::Test {
 protected:
  DrainTest() {
    server.router.add("GET", "/echo", echo);
    server.router.add("GET", "/wait", [this](Exchange& exchange) -> awaitable<void> {
      ++running;
      std::string reason = co_await until_aborted(exchange);
      Response response = Response::text(503, reason);
      (void)co_await exchange.send(std::move(response));
    });
    server.router.add("GET", "/until-released", [this](Exchange& exchange) -> awaitable<void> {
      ++running;
      while (!released && !exchange.aborted().requested()) co_await sleep_for(exchange, 2ms);
      co_await echo(exchange);
    });
  }

  std::atomic<int> running{0};
  std::atomic<bool> released{false};
  Drain drain;
  TestServer server{2};
};

TEST_F(DrainTest, IdleConnectionsAreClosedAtOnce) {
  server.options.connection.drain = &drain;
  server.start();
  RawClient used(server.port());
  used.send(get("/echo"));
  EXPECT_EQ(used.receive().header("Connection"), "");
  RawClient fresh(server.port());
  ASSERT_TRUE(eventually([&] { return server.server->connections() == 2; }));
  drain.begin();
  EXPECT_TRUE(used.closed_by_server());
  EXPECT_TRUE(fresh.closed_by_server());
}

TEST_F(DrainTest, ARunningExchangeEndsWithConnectionClose) {
  server.options.connection.drain = &drain;
  server.start();
  RawClient client(server.port());
  client.send(get("/until-released"));
  ASSERT_TRUE(eventually([&] { return running == 1; }));
  drain.begin();
  released = true;
  const RawResponse response = client.receive();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.header("Connection"), "close");
  EXPECT_TRUE(client.closed_by_server());
}

TEST_F(DrainTest, ARequestThatArrivesWhileDrainingIsStillAnswered) {
  server.options.connection.drain = &drain;
  server.start();
  drain.begin();
  // Sent together with the connect as far as the server can tell, or closed before: both are clean ends.
  RawClient client(server.port());
  client.send(get("/echo"));
  const std::string all = client.receive_to_end();
  EXPECT_TRUE(all.empty() || all.find("Connection: close") != std::string::npos) << all;
}

TEST_F(DrainTest, SubscribersAreToldOnceAndNotAfterTheyLeft) {
  Loop loop;
  std::atomic<int> told{0};
  auto stays = drain.subscribe(loop.context.get_executor(), [&] { ++told; });
  {
    auto leaves = drain.subscribe(loop.context.get_executor(), [&] { told += 100; });
  }
  drain.begin();
  drain.begin();
  auto late = drain.subscribe(loop.context.get_executor(), [&] { told += 10; });
  EXPECT_TRUE(eventually([&] { return told == 11; }));
}

TEST_F(DrainTest, ASubscriptionMayOutliveItsDrain) {
  asio::io_context context;
  auto gone = std::make_unique<Drain>();
  auto subscription = gone->subscribe(context.get_executor(), [] {});
  gone.reset();
  subscription.reset();
}

TEST_F(DrainTest, StopWaitsForARunningExchange) {
  server.start();
  RawClient idle(server.port());
  idle.send(get("/echo"));
  EXPECT_EQ(idle.receive().status, 200);
  RawClient busy(server.port());
  busy.send(get("/until-released"));
  ASSERT_TRUE(eventually([&] { return running == 1; }));
  auto stopped = server.loop.spawn(server.server->stop(kPatience));
  EXPECT_TRUE(idle.closed_by_server());
  EXPECT_THROW(RawClient(server.port()), std::runtime_error);
  EXPECT_TRUE(eventually([&] { return server.server->connections() == 1; }));
  released = true;
  EXPECT_EQ(busy.receive().header("Connection"), "close");
  ASSERT_EQ(stopped.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(server.server->connections(), 0u);
}

TEST_F(DrainTest, StopAbortsWhatRunsBeyondTheGrace) {
  server.start();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    clients.back()->send(get("/wait"));
  }
  RawClient half(server.port());
  half.send("POST /echo HTTP/1.1\r\nHost: h\r\n");
  ASSERT_TRUE(eventually([&] { return running == 8 && server.server->connections() == 9; }));
  server.stop(10ms);
  EXPECT_EQ(server.server->connections(), 0u);
  for (auto& client : clients) {
    const RawResponse response = client->receive();
    EXPECT_EQ(response.status, 503);
    EXPECT_EQ(response.body, "shutting_down");
    EXPECT_EQ(response.header("Connection"), "close");
  }
  EXPECT_EQ(half.receive_to_end(), "");
}

TEST_F(DrainTest, StopMayComeTwiceAndWithoutConnections) {
  server.start();
  server.stop(0ms);
  server.stop(kPatience);
}

TEST_F(DrainTest, AServerMayGoAwayWhileClientsAreConnected) {
  server.start();
  RawClient busy(server.port());
  busy.send(get("/wait"));
  RawClient idle(server.port());
  ASSERT_TRUE(eventually([&] { return running == 1 && server.server->connections() == 2; }));
  server.server.reset();
  EXPECT_EQ(busy.receive().status, 503);
  EXPECT_TRUE(idle.closed_by_server());
}

// serve_connection() on a socket that is passed between two servers, as supervisor and worker do.
class GiveBackTest : public ::testing::Test {
 protected:
  GiveBackTest() : acceptor(loop.context, tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {
    router.add("POST", "/echo", echo);
  }

  awaitable<std::optional<tcp::socket>> accept_and_serve(const ConnectionOptions& options) {
    tcp::socket socket = co_await acceptor.async_accept(asio::use_awaitable);
    std::optional<tcp::socket> back = co_await serve_connection(std::move(socket), router, options);
    co_return back;
  }

  Router router;
  Loop loop;
  tcp::acceptor acceptor;
};

awaitable<NextRequest> give_back(tcp::socket&) { co_return NextRequest::give_back; }

TEST_F(GiveBackTest, TheSocketComesBackWithEveryByteOfTheNextRequest) {
  ConnectionOptions first;
  first.before_next = give_back;
  auto served = loop.spawn(accept_and_serve(first));
  RawClient client(acceptor.local_endpoint().port());
  client.send(post("/echo", "one"));
  EXPECT_EQ(client.receive().body, "POST /echo one");
  client.send(post("/echo", "two") + post("/echo", "three").substr(0, 10));
  std::optional<tcp::socket> back = served.get();
  ASSERT_TRUE(back);

  const ConnectionOptions second;
  auto again = loop.spawn(serve_connection(std::move(*back), router, second));
  EXPECT_EQ(client.receive().body, "POST /echo two");
  client.send(post("/echo", "three").substr(10));
  EXPECT_EQ(client.receive().body, "POST /echo three");
  client.close();
  EXPECT_FALSE(again.get());
}

TEST_F(GiveBackTest, BytesAlreadyInTheParserAreServedWithoutAsking) {
  std::atomic<int> asked{0};
  ConnectionOptions options;
  options.before_next = [&](tcp::socket&) -> awaitable<NextRequest> {
    ++asked;
    co_return NextRequest::serve;
  };
  auto served = loop.spawn(accept_and_serve(options));
  RawClient client(acceptor.local_endpoint().port());
  client.send(post("/echo", "one") + post("/echo", "two"));
  EXPECT_EQ(client.receive().body, "POST /echo one");
  EXPECT_EQ(client.receive().body, "POST /echo two");
  EXPECT_EQ(asked, 0);
  client.send(post("/echo", "three"));
  EXPECT_EQ(client.receive().body, "POST /echo three");
  EXPECT_EQ(asked, 1);
  client.close();
  EXPECT_FALSE(served.get());
  EXPECT_EQ(asked, 1);  // the end of the stream is no request
}

TEST_F(GiveBackTest, ADrainingServerGivesBackARequestThatIsThereAndClosesAnIdleConnection) {
  Drain drain;
  ConnectionOptions options;
  options.drain = &drain;
  options.before_next = give_back;
  auto served = loop.spawn(accept_and_serve(options));
  RawClient client(acceptor.local_endpoint().port());
  client.send(post("/echo", "one"));
  EXPECT_EQ(client.receive().status, 200);
  drain.begin();
  EXPECT_FALSE(served.get());
  EXPECT_TRUE(client.closed_by_server());
}

TEST_F(GiveBackTest, AnIdleConnectionIsGivenBackUnlessBytesAreBuffered) {
  ConnectionOptions options;
  options.when_idle = [] { return NextRequest::give_back; };
  auto served = loop.spawn(accept_and_serve(options));
  RawClient client(acceptor.local_endpoint().port());
  client.send(post("/echo", "one") + post("/echo", "two"));
  EXPECT_EQ(client.receive().body, "POST /echo one");
  EXPECT_EQ(client.receive().body, "POST /echo two");
  EXPECT_TRUE(served.get());
}

TEST_F(GiveBackTest, WhatRunsBeforeTheHandlerMayAnswerInItsPlace) {
  ConnectionOptions options;
  options.before_handler = [](Exchange& exchange) -> awaitable<void> {
    if (exchange.request().body != "one") co_return;
    Response response = Response::text(503, "not now");
    (void)co_await exchange.send(std::move(response));
  };
  auto served = loop.spawn(accept_and_serve(options));
  RawClient client(acceptor.local_endpoint().port());
  client.send(post("/echo", "one") + post("/echo", "two"));
  EXPECT_EQ(client.receive().body, "not now");
  EXPECT_EQ(client.receive().body, "POST /echo two");
  client.close();
  EXPECT_FALSE(served.get());
}

TEST_F(GiveBackTest, AHookThatThrowsClosesTheConnectionOnly) {
  std::atomic<int> ends{0};
  ConnectionOptions options;
  options.on_head = [](const Request&) -> std::optional<Response> { throw std::runtime_error("hook"); };
  options.on_end = [&] { ++ends; };
  auto served = loop.spawn(accept_and_serve(options));
  RawClient client(acceptor.local_endpoint().port());
  client.send(post("/echo", "one"));
  EXPECT_FALSE(served.get());
  EXPECT_EQ(ends, 0);
}

}  // namespace
}  // namespace roost::net::testing
