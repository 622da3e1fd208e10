#include "core/gate.h"

#include <gtest/gtest.h>

namespace roost {
namespace {

TEST(Gate, ClosingAnEmptyGateIsDoneAtOnce) {
  Gate gate;
  bool empty = false;
  gate.close([&] { empty = true; });
  EXPECT_TRUE(empty);
  EXPECT_FALSE(gate.enter().has_value());
}

TEST(Gate, ClosingWaitsForTheLastHold) {
  Gate gate;
  auto first = gate.enter();
  auto second = gate.enter();
  bool empty = false;
  gate.close([&] { empty = true; });
  EXPECT_FALSE(gate.enter().has_value());
  first.reset();
  EXPECT_FALSE(empty);
  EXPECT_EQ(gate.count(), 1U);
  second.reset();
  EXPECT_TRUE(empty);
}

TEST(Gate, AMovedHoldLeavesOnce) {
  Gate gate;
  {
    auto hold = gate.enter();
    Gate::Hold moved = *std::move(hold);
    EXPECT_EQ(gate.count(), 1U);
  }
  EXPECT_EQ(gate.count(), 0U);
}

}  // namespace
}  // namespace roost
