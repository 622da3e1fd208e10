#include "agent/credentials.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace roost::agent {
namespace {

TEST(ScrubEnvironment, TakesProviderKeysAwayAndLeavesAMarker) {
  ::setenv("OPENAI_API_KEY", "sk-secret", 1);
  ::setenv("ANTHROPIC_AUTH_TOKEN", "at-secret", 1);
  ::setenv("ROOST_TEST_PLAIN", "stays", 1);
  const auto store = scrub_environment();
  EXPECT_STREQ(std::getenv("OPENAI_API_KEY"), std::string(kScrubbedMarker).c_str());
  EXPECT_STREQ(std::getenv("ANTHROPIC_AUTH_TOKEN"), std::string(kScrubbedMarker).c_str());
  EXPECT_STREQ(std::getenv("ROOST_TEST_PLAIN"), "stays");
  EXPECT_EQ(store->variable("OPENAI_API_KEY"), "sk-secret");
  EXPECT_EQ(store->variable("ROOST_TEST_PLAIN"), std::nullopt);
  // A second scrub finds markers only, which are no keys.
  const auto again = scrub_environment();
  EXPECT_EQ(again->variable("OPENAI_API_KEY"), std::nullopt);
}

TEST(ScrubEnvironment, KnowsKeysByTheirNames) {
  for (const char* name : {"OPENAI_API_KEY", "SH_MODEL_API_KEY", "ANTHROPIC_API_KEY", "HF_TOKEN", "X_API_TOKEN"}) {
    EXPECT_TRUE(holds_provider_secret(name)) << name;
  }
  for (const char* name : {"PATH", "SH_RELAY_EXEC_TOKEN", "REDIS_URL", "API_KEYS", "SH_MODEL"}) {
    EXPECT_FALSE(holds_provider_secret(name)) << name;
  }
}

}  // namespace
}  // namespace roost::agent
