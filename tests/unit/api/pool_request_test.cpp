#include "api/pool_request.h"

#include <gtest/gtest.h>

namespace roost::api {
namespace {

Result<PoolRequest> create(std::string_view body) { return parse_pool_create(json::parse(body).as_object(), 1000); }
Result<PoolRequest> fork(std::string_view body) { return parse_pool_fork(json::parse(body).as_object(), 1000); }

TEST(PoolRequest, ExactlyOneSourceIsNeeded) {
  EXPECT_EQ(create("{}").error().status(), 400);
  EXPECT_EQ(create(R"({"tokens":[1],"prompt":"x"})").error().status(), 400);
  EXPECT_EQ(create(R"({"messages":[{"role":"user","content":"x"}],"from_slot":0})").error().status(), 400);
  EXPECT_EQ(create(R"({"suffix":"x"})").error().status(), 400) << "a root has no suffix";
}

TEST(PoolRequest, EachSourceIsRead) {
  EXPECT_EQ(std::get<kv::Tokens>(create(R"({"tokens":[1,2]})")->origin), (kv::Tokens{1, 2}));
  EXPECT_EQ(std::get<PromptText>(create(R"({"prompt":"x"})")->origin).text, "x");
  EXPECT_EQ(std::get<FromSession>(create(R"({"from_session":"s"})")->origin).session_id, "s");
  EXPECT_EQ(std::get<FromSlot>(create(R"({"from_slot":3})")->origin).slot, 3);
  const auto chat =
      create(R"({"messages":[{"role":"system","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}]})");
  ASSERT_TRUE(chat.ok());
  EXPECT_FALSE(std::get<engine::ChatInput>(chat->origin).tools.empty());
}

TEST(PoolRequest, EmptyAndIllTypedSourcesAreRefused) {
  for (const auto* bad : {R"({"tokens":[]})", R"({"tokens":"x"})", R"({"tokens":[-1]})", R"({"tokens":[1000]})",
                          R"({"prompt":""})", R"({"prompt":5})", R"({"from_session":""})", R"({"from_slot":-1})",
                          R"({"from_slot":"0"})", R"({"messages":[]})"}) {
    EXPECT_EQ(create(bad).error().status(), 400) << bad;
  }
}

TEST(PoolRequest, Options) {
  const auto pool = create(R"({"prompt":"x","pin":true,"ttl_s":1.5,"session_id":"o","expect_len":7})");
  ASSERT_TRUE(pool.ok());
  EXPECT_TRUE(pool->options.pin);
  EXPECT_EQ(pool->options.ttl_s, 1.5);
  EXPECT_EQ(pool->options.owner, "o");
  EXPECT_EQ(pool->options.expect_len, 7);
  for (const auto* bad :
       {R"({"prompt":"x","pin":1})", R"({"prompt":"x","ttl_s":-1})", R"({"prompt":"x","expect_len":-1})",
        R"({"prompt":"x","unowned":true,"session_id":"o"})", R"({"prompt":"x","shared":true,"session_id":"o"})",
        R"({"prompt":"x","pin":true,"ephemeral":true})"}) {
    EXPECT_EQ(create(bad).error().status(), 400) << bad;
  }
}

TEST(PoolRequest, AForkMayGiveItsSuffixAlone) {
  const auto tokens = fork(R"({"suffix_tokens":[5],"branch_pos":3})");
  ASSERT_TRUE(tokens.ok());
  EXPECT_TRUE(tokens->is_suffix);
  EXPECT_EQ(tokens->branch_pos, 3);
  EXPECT_TRUE(fork(R"({"suffix":"x"})")->is_suffix);
  EXPECT_FALSE(fork(R"({"prompt":"x"})")->is_suffix);
  EXPECT_EQ(fork(R"({"prompt":"x","branch_pos":-1})").error().status(), 400);
  EXPECT_EQ(fork(R"({"prompt":"x","shared":true})").error().status(), 400);
}

TEST(PoolRequest, PoolIdsOfPathsAreWholeNumbers) {
  EXPECT_EQ(*parse_pool_id("0"), 0);
  EXPECT_EQ(*parse_pool_id("12"), 12);
  for (const auto* bad : {"", "-1", "x", "1x", "1.0", " 1", "99999999999999999999"})
    EXPECT_EQ(parse_pool_id(bad).error().status(), 400) << bad;
}

}  // namespace
}  // namespace roost::api
