#include "kv/kv_store.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "kv/fake_kv_port.h"
#include "kv/prefix_hash.h"
#include "seeds.h"

namespace roost::kv {
namespace {

KvTraits unified(std::size_t cells, SeqId n_seq) { return {.cells = cells, .n_seq = n_seq, .bytes_per_cell = 1}; }

// What the engine does, without the engine.
class World {
 public:
  World(KvTraits traits, SeqId parallel, std::int32_t pools, bool use_anchor = true)
      : port(traits), store(port, parallel, pools, use_anchor) {}
  ~World() {
    while (!handles.empty()) close(handles.begin()->first);
  }

  SeqId open() {
    auto handle = store.slots().take();
    const SeqId seq = handle->id();
    handles.emplace(seq, *std::move(handle));
    return seq;
  }
  void compute(SeqId seq, const Tokens& tokens) {
    for (const Token t : tokens) {
      values[seq].push_back(port.compute(seq, store.length(seq), t));
      store.computed(seq, 1);
    }
  }
  void close(SeqId seq) {
    store.clear(seq);
    handles.erase(seq);
    values.erase(seq);
  }

  FakeKvPort port;
  KvStore store;
  std::map<SeqId, SeqHandle> handles;
  std::map<SeqId, std::vector<std::uint64_t>> values;
};

Tokens counting(int n, int from = 0) {
  Tokens t;
  for (int i = 0; i < n; ++i) t.push_back(from + i);
  return t;
}

TEST(KvStore, ASharedPrefixGivesTheSameValuesAsComputingItAgain) {
  World w(unified(100, 4), 4, 0);
  const auto a = w.open();
  const auto b = w.open();
  const auto c = w.open();
  w.compute(a, counting(10));
  w.store.share(a, b, 6);
  w.compute(b, {50, 51});
  Tokens same = counting(6);
  same.push_back(50);
  same.push_back(51);
  w.compute(c, same);
  EXPECT_EQ(w.values[b].back(), w.values[c].back());
  EXPECT_EQ(w.store.check_integrity(), "");
}

TEST(KvStore, SplitCachesShareByCopyAndTrim) {
  World w({.cells = 20, .n_seq = 3, .unified = false, .bytes_per_cell = 1}, 3, 0);
  const auto a = w.open();
  const auto b = w.open();
  const auto c = w.open();
  w.compute(a, counting(10));
  w.store.share(a, b, 6);
  w.compute(b, {50});
  Tokens same = counting(6);
  same.push_back(50);
  w.compute(c, same);
  EXPECT_EQ(w.values[b].back(), w.values[c].back());
  EXPECT_EQ(w.store.ledger().used(), 10U + 7U + 7U);
  EXPECT_EQ(w.store.check_integrity(), "");
}

TEST(KvStore, ARecurrentStateIsSharedOnlyWholeAndOnlyWhileItStandsStill) {
  World w({.cells = 100, .n_seq = 3, .recurrent = true, .bytes_per_cell = 1}, 3, 0);
  const auto a = w.open();
  w.compute(a, counting(10));
  EXPECT_EQ(w.store.may_share(a, 9, false).length, 0);
  EXPECT_EQ(w.store.may_share(a, 10, true).length, 0);
  EXPECT_EQ(w.store.may_share(a, 10, false).length, 10);
  EXPECT_FALSE(w.store.truncate(a, 5)) << "the memory cannot go back";
  EXPECT_EQ(w.store.length(a), 10);
  const auto b = w.open();
  w.store.share(a, b, 10);
  w.compute(b, {7});
  EXPECT_EQ(w.store.check_integrity(), "");
}

// The recipe of the design's "Layouts and models", scaled down: window 16, 128 cells; a long session, a pool, the
// session goes, the next one grows over the hole.
Pos lowest_position_of_a_pool_left_alone(bool use_anchor, bool* refused) {
  World w({.cells = 128, .n_seq = 4, .swa_window = 16, .bytes_per_cell = 1}, 2, 1, use_anchor);
  const auto first = w.open();
  w.compute(first, counting(40));
  auto handle = w.store.pool_ids().take();
  const SeqId pool = handle->id();
  w.compute(pool, counting(40, 500));
  w.store.anchor(pool);
  w.close(first);
  const auto next = w.open();
  w.compute(next, counting(60, 200));  // fills the hole, and then the search for a place comes by the pool's cells
  const Pos low = w.port.pos_min(pool);
  *refused = w.store.may_share(pool, 20, false).length == 0;
  w.store.anchor_again({});
  w.store.clear(pool);
  return low;
}

TEST(KvStore, TheAnchorKeepsTheEarlyCellsOfAPoolThatNobodyIsAttachedTo) {
  bool refused = true;
  EXPECT_EQ(lowest_position_of_a_pool_left_alone(true, &refused), 0);
  EXPECT_FALSE(refused);
}

TEST(KvStore, WithoutTheAnchorTheyAreLostAndSharingIsRefused) {
  bool refused = false;
  EXPECT_GT(lowest_position_of_a_pool_left_alone(false, &refused), 4);
  EXPECT_TRUE(refused) << "the check of pos_min must catch what the anchor does not";
}

// Every structure against a model that keeps the cells of each sequence as a plain list.
TEST(KvStore, AgreesWithANaiveModelUnderRandomOperations) {
  int operations = 0;
  for (const auto seed : test::seeds(8)) {
    SCOPED_TRACE("ROOST_TEST_SEED=" + std::to_string(seed));
    test::Dice dice(seed);
    const bool unified_cache = seed % 4 != 0;
    constexpr SeqId kSeqs = 8;
    World w({.cells = unified_cache ? std::size_t{160} : std::size_t{40},
             .n_seq = kSeqs,
             .unified = unified_cache,
             .bytes_per_cell = 1},
            kSeqs, 0);
    struct Cell {
      Token token;
      int id;
    };
    std::map<SeqId, std::vector<Cell>> naive;
    int next_cell = 0;
    const auto distinct = [&](const std::set<SeqId>& skip, SeqId trimmed, Pos keep) {
      std::set<int> ids;
      for (const auto& [seq, cells] : naive) {
        if (skip.contains(seq)) continue;
        for (std::size_t i = 0; i < cells.size(); ++i) {
          if (seq != trimmed || static_cast<Pos>(i) < keep) ids.insert(cells[i].id);
        }
      }
      return ids.size();
    };
    const auto tokens_of = [&](SeqId seq) {
      Tokens t;
      for (const Cell& c : naive[seq]) t.push_back(c.token);
      return t;
    };
    for (int step = 0; step < 1000; ++step, ++operations) {
      std::vector<SeqId> open;
      for (const auto& [seq, cells] : naive) open.push_back(seq);
      const int what = dice.roll(0, 9);
      if (open.empty() || (what == 0 && w.handles.size() < kSeqs)) {
        naive[w.open()];
      } else if (what <= 4) {
        const SeqId seq = dice.pick(open);
        Tokens more;
        for (int n = dice.roll(1, 6); n > 0; --n) more.push_back(dice.roll(0, 2));
        const std::size_t room = unified_cache ? w.store.ledger().free() : 40 - naive[seq].size();
        if (more.size() > room) continue;
        w.compute(seq, more);
        for (const Token t : more) naive[seq].push_back({t, next_cell++});
        w.store.announce(seq, "", tokens_of(seq));
      } else if (what <= 6) {
        const SeqId from = dice.pick(open);
        if (naive[from].empty() || w.handles.size() == kSeqs) continue;
        const Pos n = dice.roll(1, static_cast<int>(naive[from].size()));
        const SeqId to = w.open();
        w.store.share(from, to, n);
        auto& cells = naive[to];
        cells.assign(naive[from].begin(), naive[from].begin() + n);
        if (!unified_cache) {
          for (Cell& c : cells) c.id = next_cell++;
        }
        w.store.announce(to, "", tokens_of(to));
      } else if (what == 7) {
        const SeqId seq = dice.pick(open);
        const Pos n = dice.roll(0, static_cast<int>(naive[seq].size()));
        ASSERT_TRUE(w.store.truncate(seq, n));
        naive[seq].resize(static_cast<std::size_t>(n));
        w.store.announce(seq, "", tokens_of(seq));
      } else if (what == 8) {
        const SeqId seq = dice.pick(open);
        w.close(seq);
        naive.erase(seq);
      } else if (unified_cache) {
        const SeqId from = dice.pick(open);
        const SeqId seq = dice.pick(open);
        const Pos common = common_prefix(tokens_of(from), tokens_of(seq));
        if (from == seq || common == 0) continue;
        const Pos n = dice.roll(1, common);
        w.store.rebase(from, seq, n);
        std::copy(naive[from].begin(), naive[from].begin() + n, naive[seq].begin());
      }

      ASSERT_EQ(w.store.check_integrity(), "");
      const auto& ledger = w.store.ledger();
      ASSERT_EQ(ledger.used(), distinct({}, kNoSeq, 0));
      ASSERT_EQ(ledger.used() + ledger.free(), ledger.total());
      std::vector<Claim> claims;
      std::set<int> taken;
      std::vector<std::size_t> expected;
      std::set<SeqId> some;
      for (const auto& [seq, cells] : naive) {
        if (dice.one_in(2)) some.insert(seq);
        claims.push_back({seq, 0, kPosMax});
        std::size_t own = 0;
        for (const Cell& c : cells) own += taken.insert(c.id).second ? 1 : 0;
        expected.push_back(own);
        ASSERT_EQ(ledger.length(seq), static_cast<Pos>(cells.size()));
      }
      ASSERT_EQ(ledger.owned(claims), expected);
      const SeqId trimmed = dice.roll(0, kSeqs - 1);
      const Pos keep = dice.roll(0, 10);
      ASSERT_EQ(ledger.used_without(some, trimmed, keep), distinct(some, trimmed, keep));
      if (open.size() >= 2 && naive.contains(open[0]) && naive.contains(open[1])) {
        const auto& a = naive[open[0]];
        const auto& b = naive[open[1]];
        std::size_t same = 0;
        while (same < a.size() && same < b.size() && a[same].id == b[same].id) ++same;
        ASSERT_EQ(ledger.shared_prefix(open[0], open[1]), static_cast<Pos>(same));
      }
    }
  }
  if (std::getenv("ROOST_TEST_SEED") == nullptr) {
    EXPECT_GE(operations, 5000);
  }
}

}  // namespace
}  // namespace roost::kv
