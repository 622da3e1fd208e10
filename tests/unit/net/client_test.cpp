#include <gtest/gtest.h>

#include <deque>

#include "net/http_client.h"
#include "test_server.h"

namespace roost::net::testing {
namespace {

Url url_of(std::uint16_t port) { return *parse_url("http://127.0.0.1:" + std::to_string(port)); }

// Everything of a client happens on one loop thread.
class ClientTest : public ::testing::Test {
 protected:
  ClientTest() {
    server.router.add("GET", "/echo", echo);
    server.router.add("POST", "/echo", echo);
    server.router.add("GET", "/stream", [](Exchange& exchange) -> awaitable<void> {
      (void)co_await exchange.start(200, Headers{});
      for (int i = 0; i < 50; ++i) (void)co_await exchange.write("piece " + std::to_string(i) + ";");
      (void)co_await exchange.finish();
    });
    server.router.add("GET", "/forever", [this](Exchange& exchange) -> awaitable<void> {
      (void)co_await exchange.start(200, Headers{});
      (void)co_await exchange.write("begin");
      std::string reason = co_await until_aborted(exchange);
      ++left;
    });
    server.router.add("GET", "/silent", [this](Exchange& exchange) -> awaitable<void> {
      ++waiting;
      std::string reason = co_await until_aborted(exchange);
      ++left;
    });
  }

  void start(ClientOptions options = {}) {
    server.start();
    client.emplace(loop.context.get_executor(), url_of(server.port()), options);
  }
  Result<Response> fetch(ClientRequest request, AbortSource* abort = nullptr) {
    return loop.run(client->fetch(std::move(request), abort));
  }
  void on_loop(std::function<void()> work) {
    loop.run([](std::function<void()> f) -> awaitable<void> {
      f();
      co_return;
    }(std::move(work)));
  }

  std::atomic<int> waiting{0};
  std::atomic<int> left{0};
  TestServer server;
  Loop loop;
  std::optional<HttpClient> client;
};

TEST_F(ClientTest, FetchesOverOneKeptConnection) {
  start();
  for (int i = 0; i < 5; ++i) {
    const auto response = fetch({"POST", "/echo", {{"X-A", "b"}}, "body " + std::to_string(i)});
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->body, "POST /echo body " + std::to_string(i));
  }
  EXPECT_EQ(client->connections(), 1u);
  EXPECT_EQ(server.server->connections(), 1u);
}

TEST_F(ClientTest, AnErrorStatusIsAnAnswer) {
  start();
  EXPECT_EQ(fetch({"GET", "/none", {}, ""})->status, 404);
}

TEST_F(ClientTest, ReadsAHeadAnswerWithoutWaitingForABody) {
  start();
  const auto response = fetch({"HEAD", "/echo", {}, ""});
  ASSERT_TRUE(response);
  EXPECT_EQ(response->headers.get("content-length"), "11");
  EXPECT_EQ(fetch({"GET", "/echo", {}, ""})->status, 200);
  EXPECT_EQ(client->connections(), 1u);
}

TEST_F(ClientTest, SendsAndReceivesALargeBody) {
  start();
  const std::string body(8 * 1024 * 1024, 'b');
  const auto response = fetch({"POST", "/echo", {}, body});
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->body.size(), body.size() + 11);
}

TEST_F(ClientTest, ReadsAStreamAndKeepsItsConnection) {
  start();
  std::string all;
  const auto read = [this](std::string& out) -> awaitable<Result<int>> {
    ROOST_CO_TRY(stream, co_await client->open({"GET", "/stream", {}, ""}));
    const int status = stream.status();
    while (true) {
      ROOST_CO_TRY(piece, co_await stream.next());
      if (!piece) break;
      out += *piece;
    }
    ROOST_CO_TRY(nothing, co_await stream.next());
    co_return nothing ? -1 : status;
  };
  EXPECT_EQ(*loop.run(read(all)), 200);
  EXPECT_TRUE(all.starts_with("piece 0;piece 1;"));
  EXPECT_TRUE(all.ends_with("piece 49;"));
  EXPECT_EQ(client->connections(), 1u);
  EXPECT_TRUE(fetch({"GET", "/echo", {}, ""}));
  EXPECT_EQ(server.server->connections(), 1u);
}

TEST_F(ClientTest, GivesEachPieceWhenItArrives) {
  start();
  const auto read = [this]() -> awaitable<Result<std::string>> {
    ROOST_CO_TRY(stream, co_await client->open({"GET", "/forever", {}, ""}));
    ROOST_CO_TRY(piece, co_await stream.next());
    co_return *piece;
  };
  EXPECT_EQ(*loop.run(read()), "begin");               // although the answer never ends
  EXPECT_TRUE(eventually([&] { return left == 1; }));  // dropping the stream closed its connection
  EXPECT_EQ(client->connections(), 0u);
}

TEST_F(ClientTest, RefusesAnAnswerAboveItsLimit) {
  start({.max_body = 20});
  EXPECT_TRUE(fetch({"GET", "/echo", {}, ""}));
  const auto response = fetch({"GET", "/stream", {}, ""});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().kind, ErrorKind::body_too_large);
  EXPECT_EQ(client->connections(), 0u);
}

TEST_F(ClientTest, SaysWhenNobodyListens) {
  start();
  server.stop(0ms);
  const auto response = fetch({"GET", "/echo", {}, ""});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().kind, ErrorKind::unavailable);
  EXPECT_NE(response.error().message.find("127.0.0.1:"), std::string::npos) << response.error().message;
}

TEST_F(ClientTest, FindsAHostByName) {
  server.start();
  client.emplace(loop.context.get_executor(), *parse_url("http://localhost:" + std::to_string(server.port())),
                 ClientOptions{});
  EXPECT_EQ(fetch({"GET", "/echo", {}, ""})->status, 200);
}

TEST_F(ClientTest, AnUnknownHostIsUnavailable) {
  client.emplace(loop.context.get_executor(), *parse_url("http://no-such-host.invalid"), ClientOptions{});
  const auto response = fetch({"GET", "/", {}, ""});
  ASSERT_FALSE(response);
  EXPECT_TRUE(response.error().kind == ErrorKind::unavailable || response.error().kind == ErrorKind::timeout);
}

TEST_F(ClientTest, AnAnswerThatDoesNotComeIsATimeout) {
  start({.idle_timeout = 30ms});
  const auto response = fetch({"GET", "/silent", {}, ""});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().kind, ErrorKind::timeout);
  EXPECT_TRUE(eventually([&] { return left == 1; }));
}

TEST_F(ClientTest, AnAbortEndsAWaitingRequest) {
  start();
  AbortSource abort;
  auto reply = loop.spawn(client->fetch({"GET", "/silent", {}, ""}, &abort));
  ASSERT_TRUE(eventually([&] { return waiting == 1; }));
  on_loop([&] { abort.request("cancelled"); });
  ASSERT_EQ(reply.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(reply.get().error().kind, ErrorKind::cancelled);
  EXPECT_TRUE(eventually([&] { return left == 1; }));
  EXPECT_EQ(client->connections(), 0u);
}

TEST_F(ClientTest, AnAbortEndsAStream) {
  start();
  AbortSource abort;
  std::promise<void> begun;
  const auto read = [&]() -> awaitable<Error> {
    auto stream = co_await client->open({"GET", "/forever", {}, ""}, &abort);
    auto piece = co_await stream->next();
    begun.set_value();
    piece = co_await stream->next();
    auto again = co_await stream->next();
    co_return again.error();
  };
  auto end = loop.spawn(read());
  begun.get_future().wait();
  on_loop([&] { abort.request("cancelled"); });
  ASSERT_EQ(end.wait_for(kPatience), std::future_status::ready);
  EXPECT_EQ(end.get().kind, ErrorKind::cancelled);
}

TEST_F(ClientTest, ARequestAbortedBeforehandIsNotSent) {
  start();
  AbortSource abort;
  abort.request("cancelled");
  EXPECT_EQ(fetch({"GET", "/silent", {}, ""}, &abort).error().kind, ErrorKind::cancelled);
  EXPECT_EQ(waiting, 0);
  EXPECT_EQ(client->connections(), 0u);
}

TEST_F(ClientTest, NeverHasMoreConnectionsThanAllowedAndServesInOrder) {
  std::vector<std::string> order;  // touched on the server's one thread
  std::atomic<std::size_t> most{0};
  server.router.add("POST", "/order", [&](Exchange& exchange) -> awaitable<void> {
    order.push_back(exchange.request().body);
    most = std::max<std::size_t>(most, server.server->connections());
    co_await sleep_for(exchange, 1ms);
    co_await echo(exchange);
  });
  start({.max_connections = 1});
  std::vector<std::future<Result<Response>>> replies;
  std::vector<std::string> expected;
  on_loop([&] {
    for (int i = 0; i < 20; ++i) {
      expected.push_back(std::to_string(i));
      replies.push_back(loop.spawn(client->fetch({"POST", "/order", {}, expected.back()})));
    }
  });
  for (auto& reply : replies) EXPECT_TRUE(reply.get());
  EXPECT_EQ(order, expected);
  EXPECT_EQ(most, 1u);
}

TEST_F(ClientTest, AWaitForAConnectionEndsByAbortOrTimeout) {
  start({.idle_timeout = 500ms, .max_connections = 1});
  AbortSource abort;
  auto holder = loop.spawn(client->fetch({"GET", "/silent", {}, ""}));
  ASSERT_TRUE(eventually([&] { return waiting == 1; }));
  auto aborted = loop.spawn(client->fetch({"GET", "/echo", {}, ""}, &abort));
  on_loop([&] { abort.request("cancelled"); });
  EXPECT_EQ(aborted.get().error().kind, ErrorKind::cancelled);
  auto behind = loop.spawn(client->fetch({"GET", "/echo", {}, ""}));
  EXPECT_EQ(holder.get().error().kind, ErrorKind::timeout);
  (void)behind.get();  // got the place, or ran out of time at the same moment
  EXPECT_TRUE(fetch({"GET", "/echo", {}, ""}));
}

TEST_F(ClientTest, GetsTheAnswerOfAServerThatRefusesTheBody) {
  server.options.connection.max_body = 1000;
  start();
  const auto response = fetch({"POST", "/echo", {}, std::string(4 * 1024 * 1024, 'x')});
  ASSERT_TRUE(response) << response.error().message;
  EXPECT_EQ(response->status, 413);
  EXPECT_EQ(client->connections(), 0u);
}

TEST_F(ClientTest, RefusesARequestLineThatWouldBeTwo) {
  start();
  const auto response = fetch({"GET", "/x HTTP/1.1\r\nHost: y\r\n\r\nGET /z", {}, ""});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().kind, ErrorKind::invalid_request);
}

// A server that says what the test wants: each accepted connection gets the next script of answers; one answer for each
// request that arrives, then it is closed.
class ScriptedServer {
 public:
  explicit ScriptedServer(std::deque<std::vector<std::string>> scripts) : scripts_(std::move(scripts)) {
    asio::co_spawn(loop_.context, run(), asio::detached);
  }
  std::uint16_t port() const { return acceptor_.local_endpoint().port(); }
  int requests() const { return requests_; }
  int closed() const { return closed_; }

 private:
  awaitable<void> run() {
    while (!scripts_.empty()) {
      tcp::socket socket = co_await acceptor_.async_accept(asio::use_awaitable);
      const std::vector<std::string> script = scripts_.front();
      scripts_.pop_front();
      for (const std::string& answer : script) {
        char request[4096];
        const std::size_t n = co_await socket.async_read_some(asio::buffer(request), asio::use_awaitable);
        if (n > 0) ++requests_;
        co_await socket.async_write_some(asio::buffer(answer), asio::use_awaitable);
      }
      socket.close();
      ++closed_;
    }
  }

  std::atomic<int> requests_{0};
  std::atomic<int> closed_{0};
  std::deque<std::vector<std::string>> scripts_;
  Loop loop_;
  tcp::acceptor acceptor_{loop_.context, tcp::endpoint(asio::ip::address_v4::loopback(), 0)};
};

class ScriptedTest : public ::testing::Test {
 protected:
  Result<Response> fetch(HttpClient& client) { return loop.run(client.fetch({"GET", "/", {}, ""})); }
  Result<Response> fetch_once(std::string answer) {
    ScriptedServer server({{std::move(answer)}});
    HttpClient client(loop.context.get_executor(), url_of(server.port()), {});
    return fetch(client);
  }
  Loop loop;
};

constexpr const char* kOk = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

TEST_F(ScriptedTest, ARequestOnAConnectionTheServerClosedIsTriedAgain) {
  // The first connection reads a second request and closes without a byte.
  ScriptedServer server({{kOk, ""}, {kOk}});
  HttpClient client(loop.context.get_executor(), url_of(server.port()), {});
  EXPECT_TRUE(fetch(client));
  const auto second = fetch(client);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(server.requests(), 3);
}

TEST_F(ScriptedTest, AConnectionClosedWhileIdleIsNotUsed) {
  ScriptedServer server({{kOk}, {kOk}});
  HttpClient client(loop.context.get_executor(), url_of(server.port()), {});
  EXPECT_TRUE(fetch(client));
  ASSERT_TRUE(eventually([&] { return server.closed() == 1; }));
  EXPECT_TRUE(fetch(client));
  EXPECT_EQ(server.requests(), 2);
}

TEST_F(ScriptedTest, ARequestIsTriedAgainOnlyOnce) {
  ScriptedServer server({{kOk, ""}, {""}, {kOk}});
  HttpClient client(loop.context.get_executor(), url_of(server.port()), {});
  EXPECT_TRUE(fetch(client));
  const auto second = fetch(client);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::unavailable);
  EXPECT_EQ(server.requests(), 3);
}

TEST_F(ScriptedTest, ARequestIsNotTriedAgainOnceTheAnswerHasBegun) {
  ScriptedServer server({{kOk, "HTTP/1.1 2"}, {kOk}});
  HttpClient client(loop.context.get_executor(), url_of(server.port()), {});
  EXPECT_TRUE(fetch(client));
  EXPECT_FALSE(fetch(client));
  EXPECT_EQ(server.requests(), 2);
}

TEST_F(ScriptedTest, ABodyMayEndWithTheConnection) {
  EXPECT_EQ(fetch_once("HTTP/1.1 200 OK\r\n\r\nall of it")->body, "all of it");
  EXPECT_EQ(fetch_once("HTTP/1.0 200 OK\r\nServer: x\r\n\r\nold")->body, "old");
}

TEST_F(ScriptedTest, InterimAnswersAreSkipped) {
  EXPECT_EQ(fetch_once(std::string("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nA: b\r\n\r\n") + kOk)->body,
            "ok");
}

TEST_F(ScriptedTest, ACutAnswerIsAnError) {
  for (const char* cut : {"", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
                          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"}) {
    const auto response = fetch_once(cut);
    ASSERT_FALSE(response) << cut;
    EXPECT_EQ(response.error().kind, ErrorKind::unavailable) << cut;
  }
}

TEST_F(ScriptedTest, GarbageAndAnEndlessHeadAreErrors) {
  for (const std::string& bad : {std::string("SSH-2.0-x\r\n\r\n"), "HTTP/1.1 200 OK\r\nX: " + std::string(200'000, 'x'),
                                 std::string("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"),
                                 std::string("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n")}) {
    const auto response = fetch_once(bad);
    ASSERT_FALSE(response) << bad.substr(0, 60);
    EXPECT_EQ(response.error().kind, ErrorKind::unavailable);
  }
}

TEST_F(ScriptedTest, AnAnnouncedLengthIsNotBelieved) {
  const auto response = fetch_once("HTTP/1.1 200 OK\r\nContent-Length: 9000000000000000000\r\n\r\nabc");
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().kind, ErrorKind::unavailable);
}

}  // namespace
}  // namespace roost::net::testing
