#include "api/generation_request.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace roost::api {
namespace {

constexpr RequestLimits kLimits{1000, 2048};

json::object chat_body(std::string_view members = "") {
  return json::parse(R"({"messages":[{"role":"user","content":"hi"}])" + std::string(members.empty() ? "" : ",") +
                     std::string(members) + "}")
      .as_object();
}

Result<GenerationRequest> chat(std::string_view members) {
  return parse_generation(Route::chat, chat_body(members), kLimits);
}

Result<GenerationRequest> completion(std::string_view body) {
  return parse_generation(Route::completion, json::parse(body).as_object(), kLimits);
}

// Every integer field with its legal range.
struct IntegerField {
  const char* name;
  std::int64_t min, max;
};
constexpr std::int64_t kMax32 = 2147483647;
constexpr IntegerField kIntegers[] = {{"n_predict", -1, kMax32},
                                      {"max_tokens", -1, kMax32},
                                      {"max_completion_tokens", -1, kMax32},
                                      {"top_k", -1, kMax32},
                                      {"repeat_last_n", -1, 65536},
                                      {"seed", INT64_MIN, INT64_MAX},
                                      {"id_slot", -1, 255},
                                      {"pool_id", 0, 9007199254740991},
                                      {"shared_pool_slot", -1, 9007199254740991},
                                      {"shared_prefix_n_tokens", 0, kMax32}};

TEST(GenerationRequest, EveryIntegerIsDefinedAtItsExtremes) {
  for (const auto& field : kIntegers) {
    for (const std::int64_t value :
         {INT64_MIN, std::int64_t{INT32_MIN}, std::int64_t{-2}, std::int64_t{-1}, std::int64_t{0}, std::int64_t{1},
          std::int64_t{INT32_MAX}, std::int64_t{INT32_MAX} + 1, INT64_MAX}) {
      const bool zero_tokens = value == 0 && std::string_view(field.name).ends_with("_tokens") &&
                               std::string_view(field.name).starts_with("max");
      const bool legal = value >= field.min && value <= field.max && !zero_tokens &&
                         !(value == 0 && std::string_view(field.name) == "n_predict");
      const auto result = chat("\"" + std::string(field.name) + "\":" + std::to_string(value));
      ASSERT_EQ(result.ok(), legal) << field.name << " = " << value;
      if (!legal) {
        EXPECT_EQ(result.error().kind, ErrorKind::invalid_request);
        EXPECT_NE(result.error().message.find(field.name), std::string::npos) << result.error().message;
      }
    }
  }
}

TEST(GenerationRequest, NumbersOutOfRangeNameTheirField) {
  const std::pair<const char*, const char*> bad[] = {{"temperature", "-0.1"},
                                                     {"temperature", "1e9"},
                                                     {"top_p", "1.01"},
                                                     {"min_p", "-1"},
                                                     {"typical_p", "2"},
                                                     {"repeat_penalty", "0"},
                                                     {"presence_penalty", "2.1"},
                                                     {"frequency_penalty", "-3"},
                                                     {"sse_ping_interval", "1e7"},
                                                     {"top_k", "1.5"},
                                                     {"seed", "1e30"},
                                                     {"temperature", "\"hot\""}};
  for (const auto& [name, value] : bad) {
    const auto result = chat("\"" + std::string(name) + "\":" + value);
    ASSERT_FALSE(result.ok()) << name << " " << value;
    EXPECT_NE(result.error().message.find(name), std::string::npos);
  }
}

TEST(GenerationRequest, AStringPoolIdIsRefused) {
  const auto result = chat(R"("pool_id":"3")");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().status(), 400);
}

TEST(GenerationRequest, TheOlderSpellingOfPoolIdCounts) {
  EXPECT_EQ(chat(R"("shared_pool_slot":4)")->pool_id, 4);
  EXPECT_EQ(chat(R"("shared_pool_slot":-1)")->pool_id, std::nullopt);
  EXPECT_EQ(chat(R"("pool_id":0)")->pool_id, 0);
  EXPECT_FALSE(chat(R"("pool_id":1,"shared_pool_slot":2)").ok());
}

TEST(GenerationRequest, NullIsAbsentAndUnknownFieldsAreIgnored) {
  const auto result = chat(R"("temperature":null,"pool_id":null,"stop":null,"something_else":{"x":1})");
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->pool_id, std::nullopt);
}

TEST(GenerationRequest, MoreThanOneChoiceIsNotSupported) {
  EXPECT_EQ(chat(R"("n":2)").error().status(), 501);
  EXPECT_EQ(chat(R"("n":0)").error().status(), 400);
  EXPECT_TRUE(chat(R"("n":1)").ok());
}

TEST(GenerationRequest, MessagesAreRequiredAndChecked) {
  const auto parse = [](std::string_view body) {
    return parse_generation(Route::chat, json::parse(body).as_object(), kLimits);
  };
  EXPECT_EQ(parse("{}").error().kind, ErrorKind::prompt_required);
  EXPECT_EQ(parse(R"({"messages":[]})").error().kind, ErrorKind::prompt_required);
  for (const auto* bad : {R"({"messages":"x"})", R"({"messages":[1]})", R"({"messages":[{"content":"x"}]})",
                          R"({"messages":[{"role":"user"}]})", R"({"messages":[{"role":"user","content":7}]})",
                          R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]})"}) {
    EXPECT_EQ(parse(bad).error().status(), 400) << bad;
  }
  EXPECT_TRUE(parse(R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}]})").ok());
  EXPECT_TRUE(parse(R"({"messages":[{"role":"assistant","content":null,"tool_calls":[]}]})").ok());
}

TEST(GenerationRequest, ANamedFunctionIsRequiredAndTheOthersStayInThePrompt) {
  const auto result =
      chat(R"("tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"b"}}],
                             "tool_choice":{"type":"function","function":{"name":"b"}})");
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->chat->tool_choice, engine::ToolChoice::required);
  EXPECT_EQ(result->chat->only_tool, "b");
  EXPECT_EQ(json::parse(result->chat->tools).as_array().size(), 2U);
  EXPECT_TRUE(result->parallel_tool_calls_set);
}

TEST(GenerationRequest, ToolChoiceIsChecked) {
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"a"}}],)";
  EXPECT_EQ(chat(tools + R"("tool_choice":"none")")->chat->tool_choice, engine::ToolChoice::none);
  EXPECT_EQ(chat(tools + R"("tool_choice":"required")")->chat->tool_choice, engine::ToolChoice::required);
  for (const auto* bad : {R"("tool_choice":"sometimes")", R"("tool_choice":3)",
                          R"("tool_choice":{"type":"function","function":{"name":"zzz"}})"}) {
    EXPECT_EQ(chat(tools + bad).error().status(), 400) << bad;
  }
  EXPECT_EQ(chat(R"("tool_choice":"required")").error().status(), 400) << "a call without tools";
  EXPECT_EQ(chat(R"("tools":[{"type":"function"}])").error().status(), 400);
}

TEST(GenerationRequest, AGrammarExcludesSchemasAndTools) {
  EXPECT_EQ(chat(R"("grammar":"root ::= \"a\"","json_schema":{"type":"object"})").error().status(), 400);
  EXPECT_EQ(
      chat(R"("grammar":"root ::= \"a\"","tools":[{"type":"function","function":{"name":"a"}}])").error().status(),
      400);
  EXPECT_EQ(chat(R"("grammar":"root ::= \"a\"","ignore_eos":true)").error().status(), 400);
  EXPECT_TRUE(chat(R"("grammar":"root ::= \"a\"")").ok());
}

TEST(GenerationRequest, ResponseFormatsBecomeSchemas) {
  EXPECT_EQ(chat(R"("response_format":{"type":"json_object"})")->chat->json_schema, R"({"type":"object"})");
  EXPECT_EQ(chat(R"("response_format":{"type":"json_schema","json_schema":{"schema":{"type":"integer"}}})")
                ->chat->json_schema,
            R"({"type":"integer"})");
  EXPECT_EQ(chat(R"("response_format":{"type":"text"})")->chat->json_schema, "");
  EXPECT_EQ(chat(R"("response_format":{"type":"xml"})").error().status(), 400);
}

TEST(GenerationRequest, StopStringsAreBounded) {
  EXPECT_EQ(chat(R"("stop":"x")")->stops, std::vector<std::string>{"x"});
  EXPECT_EQ(chat(R"("stop":["x","","y"])")->stops, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(chat("\"stop\":\"" + std::string(257, 'x') + "\"").error().status(), 400);
  EXPECT_EQ(chat(R"("stop":[1])").error().status(), 400);
  std::string many = "\"stop\":[\"0\"";
  for (int i = 1; i < 17; ++i) many += ",\"" + std::to_string(i) + "\"";
  EXPECT_EQ(chat(many + "]").error().status(), 400);
}

TEST(GenerationRequest, LogprobsOfTheChatRoute) {
  const auto result = chat(R"("logprobs":true,"top_logprobs":5)");
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->sampling.want_logprob);
  EXPECT_EQ(result->sampling.n_probs, 5);
  EXPECT_EQ(chat(R"("top_logprobs":5)").error().status(), 400);
  EXPECT_EQ(chat(R"("logprobs":true,"top_logprobs":21)").error().status(), 400);
}

TEST(GenerationRequest, PromptsAreTextsTokensOrBoth) {
  EXPECT_EQ(std::get<std::string>(completion(R"({"prompt":"hi"})")->prompt.at(0)), "hi");
  EXPECT_EQ(std::get<kv::Tokens>(completion(R"({"prompt":[1,2]})")->prompt.at(0)), (kv::Tokens{1, 2}));
  EXPECT_EQ(completion(R"({"prompt":["a",1,2,"b"]})")->prompt.size(), 3U);
  for (const auto* missing : {"{}", R"({"prompt":""})", R"({"prompt":[]})", R"({"prompt":null})"}) {
    EXPECT_EQ(completion(missing).error().kind, ErrorKind::prompt_required) << missing;
  }
  EXPECT_EQ(completion(R"({"prompt":["a","b"]})").error().status(), 501);
}

TEST(GenerationRequest, TokensOutsideOfTheVocabularyAreRefused) {
  for (const auto* bad :
       {"-1", "1000", "2147483647", "-2147483648", "9223372036854775807", "18446744073709551615", "1.0", "true"}) {
    EXPECT_EQ(completion("{\"prompt\":[" + std::string(bad) + "]}").error().status(), 400) << bad;
  }
  EXPECT_TRUE(completion(R"({"prompt":[0,999]})").ok());
}

TEST(GenerationRequest, LogitBiasInBothSpellings) {
  EXPECT_EQ(chat(R"("logit_bias":{"5":-100})")->sampling.logit_bias.at(0), (std::pair<kv::Token, float>{5, -100.0F}));
  EXPECT_TRUE(std::isinf(chat(R"("logit_bias":[[7,false]])")->sampling.logit_bias.at(0).second));
  for (const auto* bad : {R"("logit_bias":{"x":1})", R"("logit_bias":{"1000":1})", R"("logit_bias":{"-1":1})",
                          R"("logit_bias":{"5":101})", R"("logit_bias":[[5]])", R"("logit_bias":3)"}) {
    EXPECT_EQ(chat(bad).error().status(), 400) << bad;
  }
}

TEST(GenerationRequest, SessionIdsAreChecked) {
  EXPECT_EQ(chat(R"("session_id":"a/b c")")->session_id, "a/b c");
  for (const std::string& bad :
       {std::string(R"("")"), "\"" + std::string(129, 'x') + "\"", std::string(R"("a\u0000b")"), std::string("5")}) {
    EXPECT_EQ(chat("\"session_id\":" + bad).error().status(), 400) << bad;
  }
}

TEST(GenerationRequest, SeedsOfAnySizeAreFoldedAndMinusOneIsRandom) {
  EXPECT_EQ(chat(R"("seed":-1)")->sampling.seed, 0xFFFFFFFFU);
  EXPECT_EQ(chat(R"("seed":42)")->sampling.seed, 42U);
  EXPECT_NE(chat(R"("seed":4294967295)")->sampling.seed, 0xFFFFFFFFU);
}

}  // namespace
}  // namespace roost::api
