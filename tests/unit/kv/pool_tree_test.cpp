#include "kv/pool_tree.h"

#include <gtest/gtest.h>

#include <chrono>

#include "kv/prefix_hash.h"

namespace roost::kv {
namespace {

using std::chrono::seconds;

class PoolTreeTest : public testing::Test {
 protected:
  PoolId root(Tokens tokens, Retention keep = {}) {
    return tree.add({kNoPool, 0, std::move(tokens), *ids.take(), "", keep}).id;
  }
  PoolId child(PoolId parent, Pos d, Tokens suffix, Retention keep = {}) {
    Tokens tokens(tree.find(parent)->tokens->begin(), tree.find(parent)->tokens->begin() + d);
    tokens.insert(tokens.end(), suffix.begin(), suffix.end());
    return tree.add({parent, d, std::move(tokens), *ids.take(), "", keep}).id;
  }
  static bool all_idle(SeqId) { return true; }
  static bool none_idle(SeqId) { return false; }

  ManualClock clock;
  SeqIds ids{100, 120, [](SeqId) { return true; }};
  PoolTree tree{clock};
};

TEST_F(PoolTreeTest, TheFirstPoolIsZeroAndIdsAreNeverReused) {
  EXPECT_EQ(root({1}), 0);
  tree.remove(0);
  EXPECT_EQ(root({1}), 1);
}

TEST_F(PoolTreeTest, ChildrenExtendOrBranchAtAnyDepth) {
  const auto a = root({1, 2, 3, 4});
  const auto b = child(a, 4, {5, 6});
  const auto c = child(b, 2, {9});
  EXPECT_EQ(tree.find(b)->own_length(), 2);
  EXPECT_EQ(tree.find(c)->branch_pos, 2);
  EXPECT_EQ(tree.depth(), 3);
  EXPECT_EQ(tree.leaves_first(a), (std::vector<PoolId>{c, b, a}));
  EXPECT_EQ(tree.check_integrity(), "");
}

TEST_F(PoolTreeTest, TheHashAtAPositionIsTheIdentityOfThePrefix) {
  const auto a = root({1, 2, 3, 4});
  const auto b = child(a, 3, {7});
  EXPECT_EQ(tree.find(a)->hashes[2], tree.find(b)->hashes[2]);
  EXPECT_NE(tree.find(a)->hash(), tree.find(b)->hash());
  EXPECT_EQ(prefix_hashes(Tokens{1, 2, 3, 4}), tree.find(a)->hashes);
}

TEST_F(PoolTreeTest, AnUnusedLeafIsReclaimableAfterItsGraceByLastAccess) {
  const auto a = root({1, 2}, {.ttl_s = 60});
  const auto b = root({3}, {.ttl_s = 60});
  clock.advance(seconds(59));
  EXPECT_TRUE(tree.reclaimable().empty());
  clock.advance(seconds(1));
  EXPECT_EQ(tree.reclaimable(), (std::vector<PoolId>{a, b}));
  tree.touch(a);
  EXPECT_EQ(tree.reclaimable(), (std::vector<PoolId>{b}));
  clock.advance(seconds(60));
  EXPECT_EQ(tree.reclaimable(), (std::vector<PoolId>{b, a}));
  EXPECT_EQ(tree.reclaimable({b}), (std::vector<PoolId>{a}));
}

TEST_F(PoolTreeTest, PinsChildrenAndSessionsProtect) {
  const auto a = root({1, 2}, {.ttl_s = 0});
  const auto b = child(a, 2, {3}, {.ttl_s = 0});
  EXPECT_EQ(tree.reclaimable(), (std::vector<PoolId>{b}));
  {
    const PoolRef ref = tree.attach(b, 5);
    EXPECT_EQ(ref.id(), b);
    EXPECT_TRUE(tree.reclaimable().empty());
    EXPECT_TRUE(tree.evictable(none_idle).empty());
    EXPECT_EQ(tree.evictable(all_idle).size(), 2U);
  }
  EXPECT_EQ(tree.reclaimable(), (std::vector<PoolId>{b}));
  tree.pin(b, true);
  EXPECT_TRUE(tree.reclaimable().empty());
  EXPECT_TRUE(tree.evictable(all_idle).empty());
  EXPECT_EQ(tree.lasting().size(), 2U) << "a pin holds the ancestors too";
}

TEST_F(PoolTreeTest, ARemovedPoolDetachesItsSessions) {
  const auto a = root({1});
  const PoolRef ref = tree.attach(a, 3);
  tree.remove(a);
  EXPECT_EQ(ref.id(), kNoPool);
}

TEST_F(PoolTreeTest, AnEphemeralPoolIsSpentWithItsLastUser) {
  const auto a = root({1}, {.ephemeral = true});
  EXPECT_TRUE(tree.spent().empty()) << "not before its first user";
  auto ref = tree.attach(a, 3);
  EXPECT_TRUE(tree.spent().empty());
  ref.reset();
  EXPECT_EQ(tree.spent(), (std::vector<PoolId>{a}));
}

TEST_F(PoolTreeTest, FindsAnUnownedPoolWithTheSameTokens) {
  const auto a = root({1, 2, 3});
  root({4, 5}, {.owner = "me"});
  EXPECT_EQ(tree.find_same(kNoPool, 0, Tokens{1, 2, 3}, "")->id, a);
  EXPECT_EQ(tree.find_same(kNoPool, 0, Tokens{1, 2}, ""), nullptr);
  EXPECT_EQ(tree.find_same(kNoPool, 0, Tokens{1, 2, 3}, "salt"), nullptr);
  EXPECT_EQ(tree.find_same(kNoPool, 0, Tokens{4, 5}, ""), nullptr);
}

}  // namespace
}  // namespace roost::kv
