#include "engine/composer.h"

#include <gtest/gtest.h>

namespace roost::engine {
namespace {

// A machine of 10 ms a step, 2 ms a decoding session, 0.5 ms a prompt token.
double real_ms(const StepShape& s) { return 10 + 2 * s.decoding + 0.5 * s.prefill; }

CostModel taught() {
  CostModel cost;
  for (int i = 0; i < 200; ++i) {
    const StepShape shape{static_cast<double>(i % 5), static_cast<double>((i * 37) % 400), 0};
    cost.observe(shape, real_ms(shape));
  }
  return cost;
}

std::int32_t prefill_of(const Composition& c) { return static_cast<std::int32_t>(c.shape.prefill); }

TEST(CostModel, LearnsTheMachine) {
  const CostModel cost = taught();
  for (const StepShape& shape : {StepShape{4, 0, 0}, StepShape{1, 100, 0}, StepShape{0, 400, 0}}) {
    EXPECT_NEAR(cost.predict_ms(shape), real_ms(shape), 0.05 * real_ms(shape));
  }
}

TEST(CostModel, FollowsAMachineThatBecomesSlower) {
  CostModel cost = taught();
  for (int i = 0; i < 300; ++i) {
    const StepShape shape{static_cast<double>(i % 5), static_cast<double>((i * 37) % 400), 0};
    cost.observe(shape, 3 * real_ms(shape));
  }
  EXPECT_NEAR(cost.predict_ms({2, 100, 0}), 3 * real_ms({2, 100, 0}), 0.1 * 3 * real_ms({2, 100, 0}));
}

TEST(CostModel, NeverPredictsThatMoreWorkIsLess) {
  CostModel cost;
  cost.observe({4, 0, 4000}, 5);
  cost.observe({1, 0, 1000}, 50);
  EXPECT_LE(cost.predict_ms({1, 0, 1000}), cost.predict_ms({2, 0, 1000}));
  EXPECT_LE(cost.predict_ms({1, 0, 1000}), cost.predict_ms({1, 10, 1000}));
}

TEST(Composer, DecodeComesFirst) {
  const auto c = compose({{1, 5, 0}, {2, 5, 0}}, {{3, 0, 10, 0}}, CostModel{}, {.batch = 64});
  ASSERT_EQ(c.slices.size(), 3U);
  EXPECT_FALSE(c.slices[0].prefill);
  EXPECT_FALSE(c.slices[1].prefill);
  EXPECT_TRUE(c.slices[2].prefill);
}

TEST(Composer, NobodyDecodesPrefillTakesTheFullBatch) {
  const auto c = compose({}, {{1, 0, 5000, 0}, {2, 0, 5000, 0}}, taught(), {.batch = 2048, .max_gap_ms = 1});
  ASSERT_EQ(c.slices.size(), 1U);
  EXPECT_EQ(c.slices[0].tokens, 2048);
}

TEST(Composer, PrefillStaysBelowTheGapWhileSomeoneDecodes) {
  const auto c =
      compose({{9, 100, 0}}, {{1, 0, 5000, 0}}, taught(), {.batch = 2048, .min_prefill = 32, .max_gap_ms = 100});
  // 100 ms = 10 + 2 + 0.5 n
  EXPECT_NEAR(prefill_of(c), 176, 12);
}

TEST(Composer, APromptAlwaysGetsOn) {
  const auto c =
      compose({{9, 100, 0}}, {{1, 0, 5000, 0}}, taught(), {.batch = 2048, .min_prefill = 32, .max_gap_ms = 1});
  EXPECT_EQ(prefill_of(c), 32);
  const auto shared =
      compose({{9, 100, 0}}, {{1, 0, 20, 0}, {2, 0, 50, 0}}, taught(), {.min_prefill = 32, .max_gap_ms = 1});
  EXPECT_EQ(prefill_of(shared), 32) << "the minimum is the step's, not each prompt's";
}

TEST(Composer, ALeaderOfWaitingFollowersGoesFirst) {
  const auto c = compose({}, {{1, 0, 100, 0}, {2, 0, 100, 3}, {3, 0, 100, 1}}, CostModel{}, {.batch = 128});
  ASSERT_EQ(c.slices.size(), 2U);
  EXPECT_EQ(c.slices[0].session, 2U);
  EXPECT_EQ(c.slices[1].session, 3U);
  EXPECT_EQ(c.slices[1].tokens, 28);
}

TEST(Composer, MoreSessionsThanMayDecodeTakeTurns) {
  const auto c = compose({{1, 5, 7}, {2, 5, 3}, {3, 5, 5}}, {}, CostModel{}, {.max_decoding = 2});
  ASSERT_EQ(c.slices.size(), 2U);
  EXPECT_EQ(c.slices[0].session, 2U);
  EXPECT_EQ(c.slices[1].session, 3U);
}

TEST(Composer, ABatchFullOfDecodersLeavesAPlaceForPrompts) {
  const auto c = compose({{1, 5, 0}, {2, 5, 0}, {3, 5, 0}}, {{4, 0, 9, 0}}, CostModel{}, {.batch = 3});
  EXPECT_EQ(prefill_of(c), 1);
  EXPECT_EQ(c.slices.size(), 3U);
}

TEST(Composer, AfterNoSlotPrefillIsCapped) {
  EXPECT_EQ(prefill_of(compose({}, {{1, 0, 100, 0}}, CostModel{}, {.batch = 64, .prefill_cap = 10})), 10);
  EXPECT_TRUE(compose({}, {{1, 0, 100, 0}}, CostModel{}, {.batch = 64, .prefill_cap = 0}).slices.empty());
}

}  // namespace
}  // namespace roost::engine
