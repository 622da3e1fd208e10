#include "agent/openai_client.h"

#include <gtest/gtest.h>

#include <boost/asio/detached.hpp>

#include "http_fixture.h"

namespace roost::agent {
namespace {

using namespace std::chrono_literals;
using asio::awaitable;
using test::pause_for;
using test::run_until_done;

// What the stub does with one request.
struct Answer {
  int status = 200;
  std::string body;                 // of a status other than 200
  std::vector<std::string> pieces;  // of a stream, as they are written
  std::optional<std::string> retry_after;
  bool cut = false;    // returns in the middle of the stream
  bool hangs = false;  // after the pieces, until the client leaves
};

const std::string kHello = "data: {\"choices\":[{\"delta\":{\"content\":\"Hello\"},\"finish_reason\":\"stop\"}]}\n\n";
const std::string kDone = "data: [DONE]\n\n";

struct ModelStub {
  explicit ModelStub(asio::io_context& context) {
    router.add("POST", "/v1/chat/completions", [this](net::Exchange& e) { return answer(e); });
    router.add("GET", "/props", [this](net::Exchange& e) { return props(e); });
    server = std::make_unique<test::StubServer>(context, router);
  }
  awaitable<void> props(net::Exchange& exchange) {
    ++props_asked;
    json::object body;
    if (is_roost) body["features"] = json::array{"boot_id_v1"};
    (void)co_await exchange.send(net::Response::json(is_roost ? 200 : 404, body));
  }
  awaitable<void> answer(net::Exchange& exchange) {
    bodies.push_back(exchange.request().body);
    authorizations.emplace_back(exchange.request().headers.get("Authorization"));
    Answer a;
    if (!answers.empty()) {
      a = answers.front();
      if (answers.size() > 1) answers.pop_front();
    }
    if (a.status != 200) {
      net::Response response = net::Response::text(a.status, a.body, "application/json");
      if (a.retry_after) response.headers.add("Retry-After", *a.retry_after);
      (void)co_await exchange.send(std::move(response));
      co_return;
    }
    net::Headers headers{{"Content-Type", "text/event-stream"}};
    (void)co_await exchange.start(200, std::move(headers));
    for (const std::string& piece : a.pieces) {
      (void)co_await exchange.write(piece);
      co_await pause_for(1ms);
    }
    if (a.hangs) {
      ++hanging;
      co_await test::until_aborted(exchange.aborted());
      --hanging;
    }
    if (a.cut || a.hangs) co_return;
    (void)co_await exchange.finish();
  }
  net::Router router;
  std::unique_ptr<test::StubServer> server;
  std::deque<Answer> answers;  // the last one stays
  std::vector<std::string> bodies;
  std::vector<std::string> authorizations;
  bool is_roost = false;
  int props_asked = 0;
  int hanging = 0;
};

struct Heard final : ModelListener {
  awaitable<void> on_accepted() override {
    ++accepted;
    co_return;
  }
  awaitable<void> on_text(std::string delta) override {
    text += delta;
    co_return;
  }
  int accepted = 0;
  std::string text;
};

struct OpenAiClientTest : testing::Test {
  OpenAiClientTest() { make(stub.server->url() + "/v1"); }
  ~OpenAiClientTest() override {
    client.reset();
    run_until_done(context, stub.server->stop());
    context.restart();
    context.run_for(100ms);
  }
  void make(std::string url) {
    OpenAiOptions options;
    options.url = std::move(url);
    options.api_key = "sk";
    options.retry = {3, 1ms, 20ms};
    client = *OpenAiClient::make(context.get_executor(), options);
  }
  Result<ModelReply> call() {
    Result<ModelReply> result = Error{};
    run_until_done(context, call_into(result));
    return result;
  }
  awaitable<void> call_into(Result<ModelReply>& result) {
    ModelRequest request;
    request.model = "m";
    request.messages = {{Role::user, "hi", {}, {}, false}};
    request.session_id = "s";
    auto reply = co_await client->complete(request, heard, abort);
    result = std::move(reply);
  }

  asio::io_context context{1};
  ModelStub stub{context};
  std::unique_ptr<OpenAiClient> client;
  Heard heard;
  AbortSource abort;
};

TEST_F(OpenAiClientTest, StreamsAReplyThatIsSplitAnywhere) {
  const std::string whole = ": keepalive\n\n" + kHello + kDone;
  Answer a;
  for (std::size_t i = 0; i < whole.size(); i += 7) a.pieces.push_back(whole.substr(i, 7));
  stub.answers = {a};
  const auto reply = call();
  ASSERT_TRUE(reply.ok()) << reply.error().message;
  EXPECT_EQ(reply->text, "Hello");
  EXPECT_EQ(heard.text, "Hello");
  EXPECT_EQ(heard.accepted, 1);
  EXPECT_EQ(stub.authorizations.front(), "Bearer sk");
  EXPECT_EQ(stub.bodies.front().find("session_id"), std::string::npos);
}

TEST_F(OpenAiClientTest, KeepsItsConnectionAndAsksOnceWhatTheServerIs) {
  stub.is_roost = true;
  Answer a;
  a.pieces = {kHello, kDone};
  stub.answers = {a};
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(call().ok());
  EXPECT_EQ(stub.props_asked, 1);
  EXPECT_EQ(client->connections(), 1U);
  EXPECT_NE(stub.bodies.back().find(R"("session_id":"s")"), std::string::npos);
}

TEST_F(OpenAiClientTest, TriesPassingRefusalsAgainAndThenSucceeds) {
  Answer busy{503, "{}", {}, "0", false, false};
  Answer limited{429, "{}", {}, {}, false, false};
  Answer good;
  good.pieces = {kHello, kDone};
  stub.answers = {busy, limited, good};
  ASSERT_TRUE(call().ok());
  EXPECT_EQ(stub.bodies.size(), 3U);
}

TEST_F(OpenAiClientTest, GivesUpAfterItsAttemptsAndPassesRetryAfterOn) {
  stub.answers = {{503, R"({"error":{"message":"full"}})", {}, "0", false, false}};
  auto reply = call();
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().kind, ErrorKind::model_unavailable);
  EXPECT_EQ(stub.bodies.size(), 3U);
  // A long Retry-After is the client's to wait for.
  stub.answers = {{503, "{}", {}, "33", false, false}};
  reply = call();
  EXPECT_EQ(reply.error().retry_after(), 33);
  EXPECT_EQ(stub.bodies.size(), 4U);
  EXPECT_EQ(heard.accepted, 0);
}

TEST_F(OpenAiClientTest, DoesNotTryARealRefusalAgain) {
  stub.answers = {{404, R"({"error":{"message":"no pool 9","error_kind":"unknown_pool"}})", {}, {}, false, false}};
  const auto reply = call();
  EXPECT_EQ(reply.error().kind, ErrorKind::unknown_pool);
  EXPECT_EQ(stub.bodies.size(), 1U);
}

TEST_F(OpenAiClientTest, AStreamThatEndsEarlyIsAnErrorAndNotRetried) {
  Answer a;
  a.pieces = {"data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n"};
  a.cut = true;
  stub.answers = {a};
  const auto reply = call();
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().kind, ErrorKind::model_unavailable);
  EXPECT_EQ(heard.text, "Hel");
  EXPECT_EQ(stub.bodies.size(), 1U);
}

TEST_F(OpenAiClientTest, AnErrorFrameEndsTheReply) {
  Answer a;
  a.pieces = {"data: {\"error\":{\"message\":\"out of cells\",\"error_kind\":\"kv_exhausted\"}}\n\n"};
  stub.answers = {a};
  const auto reply = call();
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().kind, ErrorKind::model_unavailable);
  EXPECT_NE(reply.error().message.find("out of cells"), std::string::npos);
}

TEST_F(OpenAiClientTest, AnAnswerThatIsNotAStreamIsTakenWhole) {
  // The stub's 200 is a stream; a second stub answers one JSON text.
  net::Router router;
  router.add("POST", "/v1/chat/completions", [](net::Exchange& e) -> awaitable<void> {
    const std::string text =
        R"({"choices":[{"message":{"role":"assistant","content":"whole"},"finish_reason":"stop"}],)"
        R"("usage":{"prompt_tokens":2,"completion_tokens":1}})";
    (void)co_await e.send(net::Response::text(200, text, "application/json"));
  });
  test::StubServer other(context, router);
  make(other.url());
  const auto reply = call();
  EXPECT_TRUE(reply.ok());
  EXPECT_EQ(reply.ok() ? reply->text : "", "whole");
  client.reset();
  run_until_done(context, other.stop());
}

TEST_F(OpenAiClientTest, AServerThatIsNotThereIsModelUnavailable) {
  make("http://127.0.0.1:1");
  const auto reply = call();
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().kind, ErrorKind::model_unavailable);
  EXPECT_GT(reply.error().retry_after(), 0);
}

awaitable<void> abort_when_hanging(ModelStub& stub, AbortSource& abort) {
  while (stub.hanging == 0) co_await pause_for(1ms);
  abort.request("client_gone");
  while (stub.hanging == 1) co_await pause_for(1ms);  // the server sees it leave
}

TEST_F(OpenAiClientTest, AnAbortClosesTheRequest) {
  Answer a;
  a.pieces = {": keepalive\n\n"};
  a.hangs = true;
  stub.answers = {a};
  bool seen = false;
  asio::co_spawn(context, abort_when_hanging(stub, abort), [&](const std::exception_ptr&) { seen = true; });
  const auto reply = call();
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().kind, ErrorKind::cancelled);
  run_until_done(context, [](bool& done) -> awaitable<void> {
    while (!done) co_await pause_for(1ms);
  }(seen));
}

TEST(OpenAiClientUrl, ABadOneIsBadConfig) {
  asio::io_context context{1};
  for (const char* url : {"", "localhost", "ftp://x/", "http://"}) {
    OpenAiOptions options;
    options.url = url;
    const auto made = OpenAiClient::make(context.get_executor(), options);
    ASSERT_FALSE(made.ok()) << url;
    EXPECT_EQ(made.error().kind, ErrorKind::bad_config);
  }
}

}  // namespace
}  // namespace roost::agent
