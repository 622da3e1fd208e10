#include "api/answer_shape.h"

#include <gtest/gtest.h>

namespace roost::api {
namespace {

Outcome outcome() {
  Outcome o;
  o.admitted.slot = 2;
  o.admitted.n_prompt = 10;
  o.admitted.n_cached = 6;
  o.admitted.pool_id = 0;
  o.admitted.pool_len = 6;
  o.admitted.n_pool_shared = 6;
  o.finished.timings = {4, 20.0, 3, 60.0, 6, 0, 47.5};
  o.finished.ctx_used = 13;
  o.finished.ctx_headroom = 100;
  return o;
}

AnswerId id(bool usage = false) { return {"chatcmpl-1", 1700000000, "m", usage, false}; }

engine::ChatDelta text(std::string content) {
  engine::ChatDelta d;
  d.content = std::move(content);
  return d;
}

TEST(AnswerShape, AWholeChatAnswer) {
  engine::ChatMessage message{"hello", "", {}};
  const json::object body = make_answer_shape(Route::chat, id())->whole(message, {}, outcome());
  EXPECT_EQ(body.at("object").as_string(), "chat.completion");
  const json::object& choice = body.at("choices").at(0).as_object();
  EXPECT_EQ(choice.at("message").at("content").as_string(), "hello");
  EXPECT_EQ(choice.at("finish_reason").as_string(), "stop");
  EXPECT_EQ(body.at("usage").at("total_tokens").as_int64(), 13);
  EXPECT_EQ(body.at("usage").at("prompt_tokens_details").at("cached_tokens").as_int64(), 6);
  const json::object& coti = body.at("opencoti").as_object();
  EXPECT_EQ(coti.at("pool_id").as_int64(), 0);
  EXPECT_EQ(coti.at("n_pool_shared").as_int64(), 6);
  EXPECT_EQ(coti.at("pool_match").as_string(), "full");
  EXPECT_FALSE(coti.contains("first_divergence"));
  EXPECT_DOUBLE_EQ(body.at("session_tps").as_double(), 47.5);
}

TEST(AnswerShape, TimingsHaveAllTheirMembers) {
  const json::object t = timings_block(outcome().finished.timings);
  for (const auto* name : {"prompt_n", "prompt_ms", "prompt_per_second", "predicted_n", "predicted_ms",
                           "predicted_per_second", "cache_n", "draft_n", "draft_n_accepted"}) {
    EXPECT_TRUE(t.contains(name)) << name;
  }
  EXPECT_DOUBLE_EQ(t.at("predicted_per_second").as_double(), 50.0);
  EXPECT_DOUBLE_EQ(timings_block({}).at("prompt_per_second").as_double(), 0.0);
}

TEST(AnswerShape, ToolCallsEndWithTheirOwnReason) {
  engine::ChatMessage message{"", "", {{"call_1", "f", "{}"}}};
  const json::object body = make_answer_shape(Route::chat, id())->whole(message, {}, outcome());
  const json::object& choice = body.at("choices").at(0).as_object();
  EXPECT_EQ(choice.at("finish_reason").as_string(), "tool_calls");
  EXPECT_TRUE(choice.at("message").at("content").is_null());
  EXPECT_EQ(choice.at("message").at("tool_calls").at(0).at("function").at("name").as_string(), "f");
  auto cut = outcome();
  cut.finished.reason = engine::FinishReason::length;
  EXPECT_EQ(finish_reason(cut, true), "length");
}

TEST(AnswerShape, AChatStreamBeginsWithTheRoleAndEndsWithTheReason) {
  const auto shape = make_answer_shape(Route::chat, id());
  const auto first = shape->first();
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].at("object").as_string(), "chat.completion.chunk");
  EXPECT_EQ(first[0].at("choices").at(0).at("delta").at("role").as_string(), "assistant");
  const json::object piece = shape->piece(text("hi"), {});
  EXPECT_EQ(piece.at("choices").at(0).at("delta").at("content").as_string(), "hi");
  EXPECT_TRUE(piece.at("choices").at(0).at("finish_reason").is_null());
  const auto last = shape->last(false, {}, outcome());
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(last[0].at("choices").at(0).at("finish_reason").as_string(), "stop");
  EXPECT_TRUE(last[0].contains("timings"));
  EXPECT_TRUE(last[0].contains("opencoti"));
  EXPECT_FALSE(last[0].contains("usage"));
  EXPECT_TRUE(shape->ends_with_done());
}

TEST(AnswerShape, UsageComesInAnEventWithoutChoices) {
  const auto last = make_answer_shape(Route::chat, id(true))->last(false, {}, outcome());
  ASSERT_EQ(last.size(), 2U);
  EXPECT_TRUE(last[1].at("choices").as_array().empty());
  EXPECT_EQ(last[1].at("usage").at("completion_tokens").as_int64(), 3);
  EXPECT_TRUE(last[1].contains("timings"));
}

TEST(AnswerShape, AToolCallStreamsItsHeaderOnceAndThenArguments) {
  const auto shape = make_answer_shape(Route::chat, id());
  engine::ChatDelta head;
  head.tool_index = 0;
  head.tool_call = {"call_1", "f", ""};
  const json::object first = shape->piece(head, {});
  const json::object& call = first.at("choices").at(0).at("delta").at("tool_calls").at(0).as_object();
  EXPECT_EQ(call.at("id").as_string(), "call_1");
  EXPECT_EQ(call.at("function").at("name").as_string(), "f");
  engine::ChatDelta more;
  more.tool_index = 0;
  more.tool_call.arguments = "{\"x\"";
  const json::object second = shape->piece(more, {});
  const json::object& rest = second.at("choices").at(0).at("delta").at("tool_calls").at(0).as_object();
  EXPECT_FALSE(rest.contains("id"));
  EXPECT_FALSE(rest.at("function").as_object().contains("name"));
  EXPECT_EQ(rest.at("function").at("arguments").as_string(), "{\"x\"");
}

TEST(AnswerShape, TheOtherRoutesHaveTheirOwnShapes) {
  const json::object completion = make_answer_shape(Route::completion, id())->whole({"t", "", {}}, {}, outcome());
  EXPECT_EQ(completion.at("object").as_string(), "text_completion");
  EXPECT_EQ(completion.at("choices").at(0).at("text").as_string(), "t");
  const auto native = make_answer_shape(Route::native, id());
  const json::object whole = native->whole({"t", "", {}}, {}, outcome());
  EXPECT_EQ(whole.at("content").as_string(), "t");
  EXPECT_TRUE(whole.at("stop").as_bool());
  EXPECT_EQ(whole.at("id_slot").as_int64(), 2);
  EXPECT_FALSE(native->piece(text("x"), {}).at("stop").as_bool());
  EXPECT_FALSE(native->ends_with_done());
}

TEST(AnswerShape, LogprobsOfBothOpenAiRoutes) {
  const std::vector<TokenLogprob> tokens{{5, "\xC3", -0.5F, {{5, "\xC3", -0.5F}, {6, "a", -1.0F}}}};
  const json::object chat = chat_logprobs(tokens);
  const json::object& entry = chat.at("content").at(0).as_object();
  EXPECT_EQ(entry.at("bytes").at(0).as_int64(), 0xC3);
  EXPECT_EQ(entry.at("top_logprobs").as_array().size(), 2U);
  const json::object completion = completion_logprobs(tokens, 3);
  EXPECT_EQ(completion.at("text_offset").at(0).to_number<int>(), 3);
  EXPECT_DOUBLE_EQ(completion.at("token_logprobs").at(0).as_double(), -0.5);
}

TEST(AnswerShape, AnImpossibleTokensLogprobIsANumber) {
  const std::vector<TokenLogprob> tokens{{1, "a", -std::numeric_limits<float>::infinity(), {}}};
  EXPECT_DOUBLE_EQ(chat_logprobs(tokens).at("content").at(0).at("logprob").as_double(), -9999.0);
}

TEST(AnswerShape, ADivergenceIsTold) {
  Outcome o = outcome();
  o.admitted.n_pool_shared = 4;
  o.admitted.divergence = engine::Divergence{4, 17, 18};
  o.pool_token_text = "x";
  o.prompt_token_text = "y";
  const json::object block = opencoti_block(o);
  EXPECT_EQ(block.at("pool_match").as_string(), "partial");
  EXPECT_EQ(block.at("first_divergence").at("index").as_int64(), 4);
  EXPECT_EQ(block.at("first_divergence").at("prompt_token_text").as_string(), "y");
}

TEST(AnswerShape, NoPoolIsNull) {
  Outcome o;
  EXPECT_TRUE(opencoti_block(o).at("pool_id").is_null());
  EXPECT_EQ(opencoti_block(o).at("pool_match").as_string(), "none");
}

}  // namespace
}  // namespace roost::api
