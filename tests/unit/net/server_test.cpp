#include <gtest/gtest.h>

#include "test_server.h"

namespace roost::net::testing {
namespace {

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    server.router.add("GET", "/echo", echo);
    server.router.add("POST", "/echo", echo);
    server.router.add("GET", "/stream", stream);
  }

  static awaitable<void> stream(Exchange& exchange) {
    Headers headers;
    headers.add("Content-Type", "text/plain");
    (void)co_await exchange.start(200, std::move(headers));
    const std::vector<std::string> pieces{"one", "", "two", "three"};
    for (const std::string& piece : pieces) (void)co_await exchange.write(piece);
    (void)co_await exchange.finish();
  }

  TestServer server;
};

TEST_F(ServerTest, KeepsAConnectionForManyRequests) {
  server.start();
  RawClient client(server.port());
  for (int i = 0; i < 5; ++i) {
    client.send(post("/echo", std::to_string(i)));
    const RawResponse response = client.receive();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, "POST /echo " + std::to_string(i));
    EXPECT_EQ(response.header("Connection"), "");
  }
  EXPECT_EQ(server.server->connections(), 1u);
}

TEST_F(ServerTest, HonoursConnectionClose) {
  server.start();
  RawClient client(server.port());
  client.send(get("/echo", "Connection: close\r\n"));
  const RawResponse response = client.receive();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.header("Connection"), "close");
  EXPECT_TRUE(client.closed_by_server());
}

TEST_F(ServerTest, AnswersPipelinedRequestsInOrder) {
  server.router.add("GET", "/slow", [](Exchange& exchange) -> awaitable<void> {
    co_await sleep_for(exchange, 20ms);
    co_await echo(exchange);
  });
  server.start();
  RawClient client(server.port());
  std::string all;
  for (int i = 0; i < 20; ++i) {
    all += post("/echo", "a" + std::to_string(i));
    all += get("/slow");
  }
  client.send(all);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(client.receive().body, "POST /echo a" + std::to_string(i));
    EXPECT_EQ(client.receive().body, "GET /slow ");
  }
}

TEST_F(ServerTest, AnswersAClientThatSendsByteByByte) {
  server.start();
  RawClient client(server.port());
  client.send_byte_by_byte(post("/echo", "hello") + post("/echo", "again"));
  EXPECT_EQ(client.receive().body, "POST /echo hello");
  EXPECT_EQ(client.receive().body, "POST /echo again");
}

TEST_F(ServerTest, ReadsAChunkedBody) {
  server.start();
  RawClient client(server.port());
  client.send("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  client.send("2\r\nde\r\n0\r\n\r\n");
  EXPECT_EQ(client.receive().body, "POST /echo abcde");
}

TEST_F(ServerTest, StreamsInChunksAndKeepsTheConnection) {
  server.start();
  RawClient client(server.port());
  client.send(get("/stream"));
  const RawResponse response = client.receive();
  EXPECT_EQ(response.header("Transfer-Encoding"), "chunked");
  EXPECT_EQ(response.body, "onetwothree");
  client.send(get("/echo"));
  EXPECT_EQ(client.receive().status, 200);
}

TEST_F(ServerTest, StreamsToHttp10WithoutChunksAndCloses) {
  server.start();
  RawClient client(server.port());
  client.send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const RawResponse response = client.receive();
  EXPECT_EQ(response.header("Transfer-Encoding"), "");
  EXPECT_EQ(response.header("Connection"), "close");
  EXPECT_EQ(response.body, "onetwothree");
}

TEST_F(ServerTest, KeepsAnHttp10ConnectionThatAsksForIt) {
  server.start();
  RawClient client(server.port());
  client.send("GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(client.receive().header("Connection"), "keep-alive");
  client.send("GET /echo HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.receive().header("Connection"), "close");
  EXPECT_TRUE(client.closed_by_server());
}

TEST_F(ServerTest, AnswersHeadWithoutABody) {
  server.start();
  RawClient client(server.port());
  client.send("HEAD /echo HTTP/1.1\r\nHost: h\r\n\r\nHEAD /stream HTTP/1.1\r\nHost: h\r\n\r\n" + get("/echo"));
  EXPECT_EQ(client.receive(true).header("Content-Length"), "11");
  EXPECT_EQ(client.receive(true).header("Transfer-Encoding"), "chunked");
  EXPECT_EQ(client.receive().body, "GET /echo ");
}

TEST_F(ServerTest, SaysContinueBeforeABodyThatWaitsForIt) {
  server.start();
  RawClient client(server.port());
  client.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.receive_exactly(25), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("abc");
  EXPECT_EQ(client.receive().body, "POST /echo abc");
}

TEST_F(ServerTest, AnUnknownPathIs404AndTheConnectionStays) {
  server.start();
  RawClient client(server.port());
  client.send(post("/nothing", "body") + get("/echo"));
  const RawResponse response = client.receive();
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(json::parse(response.body).at("error").at("error_kind"), "not_found");
  EXPECT_EQ(client.receive().status, 200);
}

TEST_F(ServerTest, AnotherMethodIs405WithAllow) {
  server.start();
  RawClient client(server.port());
  client.send("DELETE /echo HTTP/1.1\r\nHost: h\r\n\r\n");
  const RawResponse response = client.receive();
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(response.header("Allow"), "GET, POST, HEAD");
}

TEST_F(ServerTest, MalformedBytesAre400) {
  server.start();
  RawClient client(server.port());
  client.send("this is no http\r\n\r\n");
  EXPECT_EQ(client.receive().status, 400);
  EXPECT_TRUE(client.closed_by_server());
}

TEST_F(ServerTest, ATooLargeHeadIs431) {
  server.options.connection.max_head = 1024;
  server.start();
  RawClient client(server.port());
  client.send(get("/echo", "X: " + std::string(4000, 'x') + "\r\n"));
  EXPECT_EQ(client.receive().status, 431);
}

TEST_F(ServerTest, ATooLargeBodyIs413BeforeItIsSent) {
  server.options.connection.max_body = 1000;
  server.start();
  RawClient client(server.port());
  client.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2000000000\r\n\r\n");
  const RawResponse response = client.receive();
  EXPECT_EQ(response.status, 413);
  EXPECT_EQ(response.header("Connection"), "close");
  EXPECT_EQ(json::parse(response.body).at("error").at("error_kind"), "body_too_large");
}

TEST_F(ServerTest, TheAnswerToARefusedBodyIsReadableWhileTheClientStillSends) {
  server.options.connection.max_body = 1000;
  server.start();
  RawClient client(server.port());
  client.send(post("/echo", std::string(60'000, 'x')));
  EXPECT_EQ(client.receive().status, 413);
  EXPECT_TRUE(client.closed_by_server());
}

TEST_F(ServerTest, AChunkedBodyAboveTheLimitIs413) {
  server.options.connection.max_body = 10;
  server.start();
  RawClient client(server.port());
  client.send("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nabcdefgh\r\n8\r\n");
  EXPECT_EQ(client.receive().status, 413);
}

TEST_F(ServerTest, ARequestThatDoesNotArriveIs408) {
  server.options.connection.read_timeout = 50ms;
  server.start();
  RawClient head(server.port());
  head.send("GET /echo HT");
  EXPECT_EQ(head.receive().status, 408);
  RawClient body(server.port());
  body.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab");
  EXPECT_EQ(body.receive().status, 408);
  EXPECT_TRUE(body.closed_by_server());
}

TEST_F(ServerTest, AnIdleConnectionIsClosed) {
  server.options.connection.idle_timeout = 20ms;
  server.start();
  RawClient client(server.port());
  client.send(get("/echo"));
  EXPECT_EQ(client.receive().status, 200);
  EXPECT_TRUE(client.closed_by_server());
  EXPECT_TRUE(eventually([&] { return server.server->connections() == 0; }));
}

TEST_F(ServerTest, AHandlerThatThrowsIs500AndTheServerGoesOn) {
  server.router.add("GET", "/throw", [](Exchange& exchange) -> awaitable<void> {
    co_await sleep_for(exchange, 1ms);
    throw std::runtime_error("handler");
  });
  server.start();
  RawClient client(server.port());
  client.send(get("/throw"));
  EXPECT_EQ(client.receive().status, 500);
  EXPECT_TRUE(client.closed_by_server());
  RawClient next(server.port());
  next.send(get("/echo"));
  EXPECT_EQ(next.receive().status, 200);
}

TEST_F(ServerTest, AHandlerWithoutAnAnswerIs500) {
  server.router.add("GET", "/silent", [](Exchange&) -> awaitable<void> { co_return; });
  server.start();
  RawClient client(server.port());
  client.send(get("/silent") + get("/echo"));
  EXPECT_EQ(client.receive().status, 500);
  EXPECT_EQ(client.receive().status, 200);
}

TEST_F(ServerTest, AStreamLeftInTheMiddleIsVisiblyCut) {
  server.router.add("GET", "/half", [](Exchange& exchange) -> awaitable<void> {
    (void)co_await exchange.start(200, {});
    (void)co_await exchange.write("half");
  });
  server.start();
  RawClient client(server.port());
  client.send(get("/half"));
  const std::string all = client.receive_to_end();
  EXPECT_TRUE(all.ends_with("\r\n\r\n4\r\nhalf\r\n")) << all;
}

TEST_F(ServerTest, AnswersOnlyOnce) {
  std::promise<std::pair<bool, bool>> second;
  server.router.add("GET", "/twice", [&](Exchange& exchange) -> awaitable<void> {
    co_await echo(exchange);
    Response again = Response::text(200, "again");
    const Result<void> sent = co_await exchange.send(std::move(again));
    const Result<void> written = co_await exchange.write("more");
    second.set_value({sent.ok(), written.ok()});
  });
  server.start();
  RawClient client(server.port());
  client.send(get("/twice") + get("/echo"));
  EXPECT_EQ(client.receive().body, "GET /twice ");
  EXPECT_EQ(client.receive().body, "GET /echo ");
  EXPECT_EQ(second.get_future().get(), (std::pair{false, false}));
}

TEST_F(ServerTest, ErrorsOfTheServerHaveTheShapeOfItsRenderer) {
  server.options.connection.render_error = [](const Error& error) {
    return Response::text(error.status(), "mine: " + std::string(error.name()));
  };
  server.start();
  RawClient client(server.port());
  client.send(get("/none"));
  EXPECT_EQ(client.receive().body, "mine: not_found");
}

TEST_F(ServerTest, GivesRouteAndQueryParametersToTheHandler) {
  server.router.add("GET", "/s/{id}/x", [](Exchange& exchange) -> awaitable<void> {
    const Request& request = exchange.request();
    Response response = Response::text(200, std::string(request.param("id")) + "," + *request.query_value("q"));
    (void)co_await exchange.send(std::move(response));
  });
  server.start();
  RawClient client(server.port());
  client.send(get("/s/a%20b/x?q=1%2B1"));
  EXPECT_EQ(client.receive().body, "a b,1+1");
}

TEST_F(ServerTest, OnHeadMayRefuseAndOnEndFollowsEachAcceptedRequest) {
  std::atomic<int> heads{0};
  std::atomic<int> ends{0};
  server.options.connection.on_head = [&](const Request& head) -> std::optional<Response> {
    ++heads;
    EXPECT_TRUE(head.body.empty());
    if (head.headers.find("X-Refuse") != nullptr) return Response::text(429, "full");
    return std::nullopt;
  };
  server.options.connection.on_end = [&] { ++ends; };
  server.start();
  RawClient client(server.port());
  client.send(post("/echo", "a") + get("/none") + post("/echo", "b", "X-Refuse: 1\r\n") + get("/echo"));
  EXPECT_EQ(client.receive().status, 200);
  EXPECT_EQ(client.receive().status, 404);
  EXPECT_EQ(client.receive().status, 429);
  EXPECT_EQ(client.receive().status, 200);
  EXPECT_TRUE(eventually([&] { return ends == 3; }));
  EXPECT_EQ(heads, 4);

  RawClient unfinished(server.port());
  unfinished.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nX-Refuse: 1\r\n\r\n");
  EXPECT_EQ(unfinished.receive().header("Connection"), "close");
  EXPECT_TRUE(unfinished.closed_by_server());
  RawClient leaving(server.port());
  leaving.send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n");
  EXPECT_TRUE(eventually([&] { return heads == 6; }));
  EXPECT_EQ(ends, 3);
  leaving.close();
  EXPECT_TRUE(eventually([&] { return ends == 4; }));
}

TEST_F(ServerTest, APortInUseSaysWhatToDo) {
  server.start();
  HttpServer::Options options;
  options.port = server.port();
  HttpServer second(server.loop.context, server.router, options);
  const Result<void> started = second.start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().kind, ErrorKind::bad_config);
  EXPECT_EQ(started.error().message,
            "127.0.0.1:" + std::to_string(server.port()) +
                " is already in use: stop the other process or choose another port with --port");
}

TEST_F(ServerTest, AnUnknownHostIsABadSetting) {
  HttpServer::Options options;
  options.host = "no such host";
  HttpServer bad(server.loop.context, server.router, options);
  const Result<void> started = bad.start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().kind, ErrorKind::bad_config);
  server.start();
}

TEST_F(ServerTest, MoreConnectionsThanTheLimitWaitForOneToEnd) {
  server.options.max_connections = 2;
  server.start();
  auto first = std::make_unique<RawClient>(server.port());
  RawClient second(server.port());
  for (RawClient* client : {first.get(), &second}) {
    client->send(get("/echo"));
    EXPECT_EQ(client->receive().status, 200);
  }
  RawClient third(server.port());
  third.send(get("/echo"));
  EXPECT_EQ(server.server->connections(), 2u);
  first.reset();
  EXPECT_EQ(third.receive().status, 200);
}

}  // namespace
}  // namespace roost::net::testing
