#include "agent/openai_stream.h"

#include <gtest/gtest.h>

#include "agent/openai_client.h"

namespace roost::agent {
namespace {

using namespace std::chrono_literals;

std::string feed_all(OpenAiStream& stream, std::initializer_list<const char*> frames) {
  std::string text;
  for (const char* frame : frames) {
    const auto piece = stream.feed(frame);
    EXPECT_TRUE(piece.ok()) << frame;
    if (piece.ok()) text += *piece;
  }
  return text;
}

TEST(OpenAiStream, JoinsTextAndReadsUsageAndTheEnginesFigures) {
  OpenAiStream stream;
  const std::string text = feed_all(
      stream,
      {R"({"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]})",
       R"({"choices":[{"index":0,"delta":{"content":"Hel"}}]})",
       R"({"choices":[{"index":0,"delta":{"content":"lo"}}]})",
       R"({"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})",
       R"({"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":90}},)"
       R"("timings":{"prompt_n":10,"cache_n":90,"predicted_n":7,"predicted_ms":70.0},)"
       R"("opencoti":{"pool_id":4,"n_pool_shared":80}})",
       "[DONE]"});
  EXPECT_EQ(text, "Hello");
  EXPECT_TRUE(stream.complete());
  const ModelReply reply = stream.take();
  EXPECT_EQ(reply.text, "Hello");
  EXPECT_EQ(reply.finish_reason, "stop");
  EXPECT_EQ(reply.usage, (Usage{10, 7, 90, 0}));
  EXPECT_EQ(reply.usage.total(), 107);
  ASSERT_TRUE(reply.engine);
  EXPECT_EQ(reply.engine->pool_id, 4);
  EXPECT_EQ(reply.engine->n_pool_shared, 80);
  EXPECT_EQ(reply.engine->prompt_n, 10);
  EXPECT_EQ(reply.engine->tps(), 100.0);
}

TEST(OpenAiStream, AssemblesToolCallsFromTheirDeltas) {
  OpenAiStream stream;
  feed_all(
      stream,
      {R"({"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"bash","arguments":""}}]}}]})",
       R"({"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"comm"}},{"index":1,"id":"b","function":{"name":"ls","arguments":"{}"}}]}}]})",
       R"({"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"and\":\"x\"}"}}]}}]})",
       R"({"choices":[{"delta":{},"finish_reason":"tool_calls"}]})"});
  const ModelReply reply = stream.take();
  ASSERT_EQ(reply.tool_calls.size(), 2U);
  EXPECT_EQ(reply.tool_calls[0], (ToolCall{"a", "bash", R"({"command":"x"})"}));
  EXPECT_EQ(reply.tool_calls[1], (ToolCall{"b", "ls", "{}"}));
}

TEST(OpenAiStream, ACallWithoutAnIdGetsOne) {
  OpenAiStream stream;
  feed_all(stream,
           {R"({"choices":[{"delta":{"tool_calls":[{"function":{"name":"ls","arguments":"{}"}}]}}]})", "[DONE]"});
  const ModelReply reply = stream.take();
  ASSERT_EQ(reply.tool_calls.size(), 1U);
  EXPECT_TRUE(reply.tool_calls[0].id.starts_with("call_"));
}

TEST(OpenAiStream, RefusesNonsense) {
  for (const char* frame :
       {"nope", "[]", R"({"choices":[1]})", R"({"choices":[{"delta":{"tool_calls":[{"index":9999}]}}]})",
        R"({"choices":[{"delta":{"tool_calls":[{"index":-1}]}}]})", R"({"choices":[{"delta":{"tool_calls":[7]}}]})"}) {
    OpenAiStream stream;
    const auto piece = stream.feed(frame);
    ASSERT_FALSE(piece.ok()) << frame;
    EXPECT_EQ(piece.error().kind, ErrorKind::model_error);
  }
  OpenAiStream stream;
  EXPECT_TRUE(stream.feed(R"({"choices":"x","usage":7,"timings":[],"opencoti":null})").ok());
  EXPECT_FALSE(stream.complete());
}

TEST(ModelTierError, NamesTheKindAndKeepsRetryAfter) {
  EXPECT_EQ(model_tier_error(503, "busy", 9).kind, ErrorKind::model_unavailable);
  EXPECT_EQ(model_tier_error(503, "busy", 9).retry_after(), 9);
  EXPECT_EQ(model_tier_error(429, "", {}).kind, ErrorKind::model_unavailable);
  EXPECT_EQ(model_tier_error(429, R"({"error":{"message":"slow","error_kind":"tps_floor"}})", 2).kind,
            ErrorKind::tps_floor);
  EXPECT_EQ(model_tier_error(404, R"({"error":{"message":"no pool","error_kind":"unknown_pool"}})", {}).kind,
            ErrorKind::unknown_pool);
  EXPECT_EQ(model_tier_error(400, R"({"error":{"message":"x"}})", {}).kind, ErrorKind::model_error);
  EXPECT_EQ(model_tier_error(401, R"({"error":{"error_kind":"unauthorized"}})", {}).kind, ErrorKind::model_error);
  EXPECT_EQ(model_tier_error(500, "<html>", {}).kind, ErrorKind::model_error);
  EXPECT_NE(model_tier_error(400, R"({"error":{"message":"why not"}})", {}).message.find("why not"), std::string::npos);
}

TEST(RetryDelay, DoublesWithJitterHonoursRetryAfterAndIsBounded) {
  const RetryPolicy policy{4, 200ms, 4'000ms};
  EXPECT_EQ(retry_delay(policy, 2, {}, 0.0), 100ms);
  EXPECT_EQ(retry_delay(policy, 2, {}, 1.0), 200ms);
  EXPECT_EQ(retry_delay(policy, 4, {}, 1.0), 800ms);
  EXPECT_EQ(retry_delay(policy, 5, {}, 1.0), std::nullopt);
  EXPECT_EQ(retry_delay(policy, 2, 1, 0.0), 1'000ms);
  EXPECT_EQ(retry_delay(policy, 2, 60, 0.0), std::nullopt);
  EXPECT_EQ(retry_delay(RetryPolicy{100, 200ms, 4'000ms}, 99, {}, 1.0), 4'000ms);
}

TEST(OpenAiBody, SendsSessionIdOnlyToARoostEngineAndPoolIdAlways) {
  ModelRequest request;
  request.model = "m";
  request.messages = {{Role::user, "hi", {}, {}, false}};
  request.session_id = "s";
  request.pool_id = 3;
  request.tool_choice = ToolChoice{ToolChoice::Mode::required, {}};
  const json::object other = openai_body(request, false);
  EXPECT_FALSE(other.contains("session_id"));
  EXPECT_EQ(other.at("pool_id"), 3);
  EXPECT_FALSE(other.contains("tools"));
  EXPECT_FALSE(other.contains("tool_choice"));  // not allowed without tools
  request.tools = {{"ls", "d", {}}};
  const json::object roost = openai_body(request, true);
  EXPECT_EQ(roost.at("session_id"), "s");
  EXPECT_EQ(roost.at("tool_choice"), "required");
  EXPECT_EQ(roost.at("tools").as_array().size(), 1U);
  EXPECT_TRUE(roost.at("stream").as_bool());
}

}  // namespace
}  // namespace roost::agent
