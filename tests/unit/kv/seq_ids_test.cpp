#include "kv/seq_ids.h"

#include <gtest/gtest.h>

namespace roost::kv {
namespace {

TEST(SeqIds, GivesTheLowestFreeIdAndTakesItBack) {
  SeqIds ids(2, 5, [](SeqId) { return true; });
  auto a = ids.take();
  auto b = ids.take();
  EXPECT_EQ(a->id(), 2);
  EXPECT_EQ(b->id(), 3);
  a.reset();
  EXPECT_EQ(ids.take()->id(), 2);
  EXPECT_EQ(ids.used(), 1);
  EXPECT_EQ(ids.check_integrity(), "");
}

TEST(SeqIds, RefusesWhatIsTakenOrOutOfRange) {
  SeqIds ids(0, 2, [](SeqId) { return true; });
  auto a = ids.take(1);
  EXPECT_TRUE(a);
  EXPECT_FALSE(ids.take(1));
  EXPECT_FALSE(ids.take(2));
  EXPECT_FALSE(ids.take(-1));
  auto b = ids.take();
  EXPECT_FALSE(ids.take());
}

TEST(SeqIds, AHandleGivesBackOnceAfterMoves) {
  SeqIds ids(0, 2, [](SeqId) { return true; });
  {
    auto a = ids.take();
    SeqHandle moved = *std::move(a);
    SeqHandle other;
    other = std::move(moved);
    EXPECT_EQ(other.id(), 0);
    EXPECT_EQ(ids.used(), 1);
  }
  EXPECT_EQ(ids.used(), 0);
}

TEST(SeqIdsDeathTest, ASequenceGivenBackWithCellsIsABrokenInvariant) {
  EXPECT_DEATH(
      {
        bool empty = true;
        SeqIds ids(0, 1, [&](SeqId) { return empty; });
        auto a = ids.take();
        empty = false;
        a.reset();
      },
      "cells in it");
}

}  // namespace
}  // namespace roost::kv
