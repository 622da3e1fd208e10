#include "agent/turn_server.h"

#include <gtest/gtest.h>

#include <boost/asio/detached.hpp>

#include "agent/tools.h"
#include "http_fixture.h"

namespace roost::agent {
namespace {

using namespace std::chrono_literals;
using asio::awaitable;
using net::SseEvent;
using test::bash;
using test::pause_for;
using test::post;
using test::run_until_done;

struct TurnServerTest : testing::Test {
  TurnServerTest() {
    redis = *store::Redis::open(context.get_executor(), redis_server.url());
    run_until_done(context, [](store::Redis& r) -> awaitable<void> { (void)co_await r.wait_connected(30s); }(*redis));
    serve(20s);
  }
  ~TurnServerTest() override {
    client.reset();
    run_until_done(context, server->stop());
    redis->close();
    context.restart();
    context.run_for(200ms);
    EXPECT_EQ(turns->in_flight(), 0U);
    EXPECT_EQ(boxes.seats, 0);
    EXPECT_EQ(boxes.running, 0);
  }
  void serve(std::chrono::milliseconds keepalive) {
    client.reset();
    if (server) run_until_done(context, server->stop());
    server.reset();
    router = std::make_unique<net::Router>();
    TurnServices services;
    services.executor = context.get_executor();
    services.redis = redis;
    services.sandboxes = &boxes;
    services.model = &model;
    services.clock = &clock;
    turns = std::make_unique<TurnServer>(services, TurnServer::Options{keepalive});
    turns->add_routes(*router);
    server = std::make_unique<test::StubServer>(context, *router);
    client =
        std::make_unique<net::HttpClient>(context.get_executor(), *net::parse_url(server->url()), net::ClientOptions{});
  }

  net::Response fetch(net::ClientRequest request) {
    net::Response response;
    run_until_done(context, fetch_into(std::move(request), response));
    return response;
  }
  awaitable<void> fetch_into(net::ClientRequest request, net::Response& response) {
    auto fetched = co_await client->fetch(std::move(request));
    EXPECT_TRUE(fetched.ok());
    if (fetched.ok()) response = *std::move(fetched);
  }
  net::Response get(std::string target) {
    net::ClientRequest request;
    request.target = std::move(target);
    return fetch(std::move(request));
  }
  std::string error_of(const net::Response& response) {
    const auto body = parse_json_object(response.body);
    EXPECT_TRUE(body.ok()) << response.body;
    return body.ok() && body->contains("error") ? std::string(body->at("error").as_string()) : "";
  }
  std::vector<SseEvent> events_of(const net::Response& response) {
    net::SseParser parser;
    std::vector<SseEvent> events;
    parser.feed(response.body, events);
    comments = parser.comments();
    return events;
  }
  json::object json_of(const SseEvent& event) { return parse_json(event.data)->as_object(); }

  test::RedisServer redis_server;
  asio::io_context context{1};
  SystemClock clock;
  std::shared_ptr<store::Redis> redis;
  test::ScriptedModel model;
  test::FakeSandboxes boxes;
  std::unique_ptr<net::Router> router;
  std::unique_ptr<TurnServer> turns;
  std::unique_ptr<test::StubServer> server;
  std::unique_ptr<net::HttpClient> client;
  std::size_t comments = 0;
};

TEST_F(TurnServerTest, HealthIsOkAlsoWithoutRedis) {
  redis_server.stop();
  const auto response = get("/health");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "ok");
}

TEST_F(TurnServerTest, AnswersATurnAsJson) {
  for (const char* target : {"/turn", "/v1/turn"}) {
    model.says("hello");
    const auto response = fetch(post(target, R"({"prompt":"hi","sessionId":"s1","poolId":4})"));
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body,
              R"({"sessionId":"s1","response":"hello","stopReason":"stop",)"
              R"("usage":{"input":10,"output":5,"cacheRead":3,"cacheWrite":0,"total":18},"sandbox":{"id":"box-1"},)"
              R"("engine":{"pool_id":4,"n_pool_shared":3,"prompt_n":10,"cache_n":3,"tps":1E2,"calls":1}})");
  }
  EXPECT_EQ(model.requests.back().messages.size(), 3U);  // the second turn knows the first
}

TEST_F(TurnServerTest, MakesASessionIdWhenNoneIsGiven) {
  model.says("a");
  model.says("b");
  const auto first = parse_json_object(fetch(post("/turn", R"({"prompt":"hi"})")).body);
  const auto second = parse_json_object(fetch(post("/turn", R"({"prompt":"hi"})")).body);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->at("sessionId"), second->at("sessionId"));
}

TEST_F(TurnServerTest, StreamsATurnAsEvents) {
  boxes.outcomes["long"] = {std::string(3'000, 'x') + "\xff", "", 0, false};
  model.calls({bash("c1", "long")});
  model.steps.push_back({{"he", "llo"}, {}, "stop", {}, false, {}});
  const auto response = fetch(post("/v1/turn", R"({"prompt":"hi","sessionId":"s1"})", true));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.get("Content-Type"), "text/event-stream");
  const auto events = events_of(response);
  std::vector<std::string> names;
  for (const auto& event : events) {
    if (event.event != "model") names.push_back(event.event);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"turn", "tool_use", "tool_result", "text", "text", "done"}));
  EXPECT_EQ(json_of(events.front()).at("sessionId"), "s1");
  EXPECT_FALSE(json_of(events.front()).at("turnId").as_string().empty());
  for (const auto& event : events) {
    const json::object data = json_of(event);
    if (event.event == "tool_use") {
      EXPECT_EQ(event.data, R"({"id":"c1","name":"bash","args":{"command":"long"}})");
    }
    if (event.event == "tool_result") {
      EXPECT_EQ(data.at("isError"), false);
      EXPECT_EQ(data.at("preview").as_string().size(), kPreviewBytes);
    }
    if (event.event == "done") {
      EXPECT_EQ(data.at("stopReason"), "stop");
      EXPECT_EQ(data.at("usage").as_object().at("total"), 36);
      EXPECT_EQ(data.at("engine").as_object().at("calls"), 2);
    }
  }
}

TEST_F(TurnServerTest, ErrorsBeforeTheFirstEventAreTheSameWithAndWithoutAStream) {
  struct Case {
    std::string body;
    int status;
    std::string error;
  };
  const Case cases[] = {
      {"{", 400, "invalid_json"},
      {"{}", 400, "prompt_required"},
      {R"({"prompt":"p","poolId":"x"})", 400, "invalid_request"},
      {R"({"prompt":"p","detachable":true})", 501, "not_supported"},
      {R"({"prompt":"p","tools":[]})", 503, "model_unavailable"},  // the script is empty
  };
  for (const Case& c : cases) {
    for (const bool stream : {false, true}) {
      const auto response = fetch(post("/turn", c.body, stream));
      EXPECT_EQ(response.status, c.status) << c.body << response.body;
      EXPECT_EQ(error_of(response), c.error);
      EXPECT_EQ(response.headers.get("Content-Type").substr(0, 16), "application/json");
    }
  }
  const auto away = fetch(post("/turn", R"({"prompt":"p","sessionId":"s"})", true));
  EXPECT_EQ(away.headers.get("Retry-After"), "7");
  EXPECT_NE(away.body.find(R"("sessionId":"s")"), std::string::npos);
}

TEST_F(TurnServerTest, SandboxRefusalsHaveTheirCodes) {
  boxes.refusal = Error{ErrorKind::pool_empty, "no sandbox (source: records)", {}, {}};
  auto response = fetch(post("/turn", R"({"prompt":"p"})", true));
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(error_of(response), "pool_empty");
  boxes.refusal = Error{ErrorKind::sandbox_saturated, "full", {}, {}};
  response = fetch(post("/turn", R"({"prompt":"p"})"));
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(error_of(response), "sandbox_saturated");
  EXPECT_EQ(response.headers.get("Retry-After"), "1");
}

TEST_F(TurnServerTest, ASessionMismatchIsRefused) {
  auto request = post("/turn", R"({"prompt":"p","sessionId":"a"})");
  request.headers.add("X-SH-Session-Id", "b");
  const auto response = fetch(std::move(request));
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(error_of(response), "session_mismatch");
}

TEST_F(TurnServerTest, RedisAwayIs503AndWorksAgainLater) {
  redis_server.stop();
  const auto away = fetch(post("/turn", R"({"prompt":"p","sessionId":"s"})", true));
  EXPECT_EQ(away.status, 503);
  EXPECT_EQ(error_of(away), "redis_unavailable");
  redis_server.start();
  run_until_done(context, [](store::Redis& r) -> awaitable<void> { (void)co_await r.wait_connected(30s); }(*redis));
  model.says("back");
  EXPECT_EQ(fetch(post("/turn", R"({"prompt":"p","sessionId":"s"})")).status, 200);
}

TEST_F(TurnServerTest, AnErrorAfterTheFirstEventIsATerminalEvent) {
  model.steps.push_back({{"so far"}, {}, "", Error{ErrorKind::model_unavailable, "lost", {}, {}}, false, {}});
  const auto response = fetch(post("/turn", R"({"prompt":"p"})", true));
  EXPECT_EQ(response.status, 200);
  const auto events = events_of(response);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().event, "error");
  EXPECT_EQ(json_of(events.back()).at("stopReason"), "error");
  EXPECT_EQ(json_of(events.back()).at("errorMessage"), "lost");
}

awaitable<void> cancel_running(TurnServerTest& t, net::Response& turn, bool stream) {
  t.model.hangs("thinking");
  bool ended = false;
  asio::co_spawn(t.context, t.fetch_into(post("/turn", R"({"prompt":"p","sessionId":"s"})", stream), turn),
                 [&](const std::exception_ptr&) { ended = true; });
  while (t.model.hanging == 0) co_await pause_for(1ms);

  net::Response response;
  co_await t.fetch_into(post("/turn", R"({"prompt":"again","sessionId":"s"})"), response);
  EXPECT_EQ(response.status, 409);
  EXPECT_EQ(t.error_of(response), "turn_in_progress");
  const std::string turn_id(parse_json_object(response.body)->at("turnId").as_string());

  net::ClientRequest look;
  look.target = "/v1/sessions/s";
  co_await t.fetch_into(std::move(look), response);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(parse_json_object(response.body)->at("state"), "running");
  EXPECT_EQ(parse_json_object(response.body)->at("turnId").as_string(), turn_id);

  co_await t.fetch_into(post("/v1/turn/cancel", R"({"sessionId":"s","turnId":"other"})"), response);
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(t.error_of(response), "turn_not_found");
  const std::string body = json::serialize(json::object{{"sessionId", "s"}, {"turnId", turn_id}});
  co_await t.fetch_into(post("/v1/turn/cancel", body), response);
  EXPECT_EQ(response.status, 200);
  while (!ended) co_await pause_for(1ms);
}

TEST_F(TurnServerTest, ACancelledTurnEndsWithItsReason) {
  net::Response turn;
  run_until_done(context, cancel_running(*this, turn, true));
  const auto events = events_of(turn);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().event, "error");
  EXPECT_EQ(json_of(events.back()).at("stopReason"), "aborted");
  EXPECT_EQ(json_of(events.back()).at("abortReason"), "cancelled");
}

TEST_F(TurnServerTest, ACancelThroughAnotherWorkerArrivesToo) {
  model.hangs("thinking");
  TurnRegistry other(context.get_executor(), redis);
  net::Response turn;
  run_until_done(context, [](TurnServerTest& t, TurnRegistry& registry, net::Response& out) -> awaitable<void> {
    bool ended = false;
    asio::co_spawn(t.context, t.fetch_into(post("/turn", R"({"prompt":"p","sessionId":"s"})", true), out),
                   [&](const std::exception_ptr&) { ended = true; });
    while (t.model.hanging == 0) co_await pause_for(1ms);
    auto cancelled = co_await registry.cancel("s", "");
    EXPECT_TRUE(cancelled.ok());
    while (!ended) co_await pause_for(1ms);
  }(*this, other, turn));
  EXPECT_EQ(events_of(turn).back().event, "error");
}

awaitable<void> leave_early(TurnServerTest& t, std::string body, std::function<bool()> when) {
  AbortSource leave;
  auto stream = co_await t.client->open(post("/turn", std::move(body), true), &leave);
  EXPECT_TRUE(stream.ok());
  while (!when()) co_await pause_for(1ms);
  {
    const auto gone = std::move(stream);  // destroying it closes the connection
  }
  while (t.turns->in_flight() > 0) co_await pause_for(1ms);
}

TEST_F(TurnServerTest, AClientThatLeavesDuringTheModelCallEndsTheTurn) {
  model.hangs("thinking");
  run_until_done(context, leave_early(*this, R"({"prompt":"p","sessionId":"s"})", [&] { return model.hanging == 1; }));
  EXPECT_EQ(model.hanging, 0);
  model.says("next");
  EXPECT_EQ(fetch(post("/turn", R"({"prompt":"q","sessionId":"s"})")).status, 200);
}

TEST_F(TurnServerTest, AClientThatLeavesDuringAToolCallEndsTheCommand) {
  model.calls({bash("a", "hang")});
  run_until_done(context, leave_early(*this, R"({"prompt":"p","sessionId":"s"})", [&] { return boxes.running == 1; }));
  EXPECT_EQ(boxes.running, 0);
  EXPECT_EQ(boxes.seats, 0);
}

TEST_F(TurnServerTest, SilenceIsFilledWithKeepalives) {
  serve(20ms);
  model.steps.push_back({{"late"}, {}, "stop", {}, false, 200ms});
  const auto response = fetch(post("/turn", R"({"prompt":"p"})", true));
  const auto events = events_of(response);
  EXPECT_GE(comments, 1U);
  EXPECT_EQ(events.front().event, "turn");
  EXPECT_EQ(events.back().event, "done");
}

TEST_F(TurnServerTest, ShowsASession) {
  EXPECT_EQ(get("/v1/sessions/unknown").status, 404);
  EXPECT_EQ(error_of(get("/v1/sessions/unknown")), "session_not_found");
  model.says("x");
  fetch(post("/turn", R"({"prompt":"p","sessionId":"s"})"));
  const auto session = parse_json_object(get("/v1/sessions/s").body);
  ASSERT_TRUE(session.ok());
  EXPECT_EQ(session->at("turns"), 1);
  EXPECT_EQ(session->at("state"), "idle");
  EXPECT_EQ(session->at("tokens").as_object().at("output"), 5);
  EXPECT_EQ(session->at("sandbox").as_object().at("id"), "box-1");
}

TEST_F(TurnServerTest, TargetsMatchExactlyAndWhatIsNotThereSaysSo) {
  EXPECT_EQ(fetch(post("/turn?x=1", R"({"prompt":"p"})")).status, 404);
  EXPECT_EQ(fetch(post("/%74urn", R"({"prompt":"p"})")).status, 404);
  EXPECT_EQ(fetch(post("/turn/", R"({"prompt":"p"})")).status, 404);
  EXPECT_EQ(get("/health?x").status, 404);
  EXPECT_EQ(get("/v1/sessions/s?x=1").status, 404);
  EXPECT_EQ(get("/nope").status, 404);
  EXPECT_EQ(error_of(get("/nope")), "not_found");
  EXPECT_EQ(get("/turn").status, 405);
  EXPECT_EQ(get("/v1/turn?sessionId=s").status, 501);
  EXPECT_EQ(error_of(get("/v1/turn?sessionId=s")), "not_supported");
  EXPECT_EQ(fetch(post("/v1/runs", "{}")).status, 501);
  EXPECT_EQ(get("/v1/runs/status?sessionId=s").status, 501);
}

TEST_F(TurnServerTest, CancelChecksItsInput) {
  EXPECT_EQ(error_of(fetch(post("/v1/turn/cancel", "x"))), "invalid_json");
  EXPECT_EQ(error_of(fetch(post("/v1/turn/cancel", "{}"))), "invalid_request");
  EXPECT_EQ(error_of(fetch(post("/v1/turn/cancel", R"({"sessionId":"idle"})"))), "turn_not_found");
}

}  // namespace
}  // namespace roost::agent
