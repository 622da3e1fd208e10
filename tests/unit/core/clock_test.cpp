#include "core/clock.h"

#include <gtest/gtest.h>

namespace roost {
namespace {

TEST(ManualClock, StandsStillUntilTold) {
  ManualClock clock;
  const TimePoint start = clock.now();
  EXPECT_EQ(clock.now(), start);
  clock.advance(std::chrono::milliseconds(250));
  EXPECT_DOUBLE_EQ(seconds(clock.now() - start), 0.25);
  EXPECT_DOUBLE_EQ(milliseconds(clock.now() - start), 250.0);
}

}  // namespace
}  // namespace roost
