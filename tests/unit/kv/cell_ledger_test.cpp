#include "kv/cell_ledger.h"

#include <gtest/gtest.h>

namespace roost::kv {
namespace {

TEST(CellLedger, SharedCellsCountOnce) {
  CellLedger ledger(100, 3, true);
  ledger.append(0, 10);
  ledger.share(0, 1, 0, 6);
  ledger.append(1, 4);
  EXPECT_EQ(ledger.used(), 14U);
  EXPECT_EQ(ledger.used() + ledger.free(), ledger.total());
  EXPECT_EQ(ledger.shared_prefix(0, 1), 6);
  EXPECT_EQ(ledger.check_integrity(), "");
}

TEST(CellLedger, ACellIsFreeWhenItsLastHolderLeaves) {
  CellLedger ledger(100, 3, true);
  ledger.append(0, 10);
  ledger.share(0, 1, 0, 6);
  ledger.truncate(0, 0);
  EXPECT_EQ(ledger.used(), 6U);
  ledger.truncate(1, 2);
  EXPECT_EQ(ledger.used(), 2U);
  ledger.truncate(1, 0);
  EXPECT_EQ(ledger.used(), 0U);
}

TEST(CellLedger, APositionComputedAgainIsAnotherCell) {
  CellLedger ledger(100, 3, true);
  ledger.append(0, 10);
  ledger.share(0, 1, 0, 10);
  ledger.truncate(0, 5);
  ledger.append(0, 5);
  EXPECT_EQ(ledger.used(), 15U);
  EXPECT_EQ(ledger.shared_prefix(0, 1), 5);
}

TEST(CellLedger, RebaseGivesTheOwnStartAwayAndKeepsTheRest) {
  CellLedger ledger(100, 3, true);
  ledger.append(0, 8);
  ledger.append(1, 12);
  ledger.rebase(0, 1, 8);
  EXPECT_EQ(ledger.used(), 12U);
  EXPECT_EQ(ledger.shared_prefix(0, 1), 8);
  EXPECT_EQ(ledger.length(1), 12);
  EXPECT_EQ(ledger.check_integrity(), "");
  ledger.truncate(0, 0);
  EXPECT_EQ(ledger.used(), 12U);
  ledger.truncate(1, 0);
  EXPECT_EQ(ledger.used(), 0U);
}

TEST(CellLedger, TheFirstClaimThatHoldsACellOwnsIt) {
  CellLedger ledger(100, 4, true);
  ledger.append(0, 10);      // an old session
  ledger.share(0, 2, 0, 6);  // the pool made from it
  ledger.share(2, 1, 0, 6);  // a young session
  ledger.append(1, 3);
  std::size_t unowned = 9;
  EXPECT_EQ(ledger.owned({{2, 0, kPosMax}, {0, 0, kPosMax}, {1, 0, kPosMax}}, &unowned),
            (std::vector<std::size_t>{6, 4, 3}));
  EXPECT_EQ(unowned, 0U);
  // The pool is released: its cells go to the oldest session that holds them.
  ledger.truncate(2, 0);
  EXPECT_EQ(ledger.owned({{0, 0, kPosMax}, {1, 0, kPosMax}}), (std::vector<std::size_t>{10, 3}));
  // The donor ends.
  ledger.truncate(0, 0);
  EXPECT_EQ(ledger.owned({{1, 0, kPosMax}}), (std::vector<std::size_t>{9}));
}

TEST(CellLedger, WhatIsPromisedIsNotPromisedAgain) {
  CellLedger ledger(100, 2, true);
  ledger.append(0, 40);
  auto a = ledger.reserve(50);
  EXPECT_EQ(ledger.reservable(), 10U);
  a.consume(20);
  ledger.append(1, 20);
  EXPECT_EQ(ledger.reservable(), 10U);
  EXPECT_EQ(ledger.outstanding(), 30U);
  a.release();
  EXPECT_EQ(ledger.outstanding(), 0U);
  EXPECT_EQ(ledger.reservable(), 40U);
}

TEST(CellLedger, SplitCachesCopy) {
  CellLedger ledger(50, 3, false);
  ledger.append(0, 10);
  ledger.share(0, 1, 0, 6);
  EXPECT_EQ(ledger.used(), 16U);
  EXPECT_EQ(ledger.total(), 150U);
  EXPECT_EQ(ledger.copied(1), 6);
  ledger.truncate(1, 4);
  EXPECT_EQ(ledger.copied(1), 4);
}

TEST(CellLedger, TellsWhatWouldBeUsedWithoutSomeSequences) {
  CellLedger ledger(100, 4, true);
  ledger.append(0, 10);
  ledger.share(0, 1, 0, 6);
  ledger.append(1, 4);
  EXPECT_EQ(ledger.used_without({0}), 10U);
  EXPECT_EQ(ledger.used_without({0, 1}), 0U);
  EXPECT_EQ(ledger.used_without({0}, 1, 3), 3U);
  EXPECT_EQ(ledger.held_by({0}), 10U);
  EXPECT_EQ(ledger.held_by({0, 1}), 14U);
}

}  // namespace
}  // namespace roost::kv
