#include "kv/prefix_tree.h"

#include <gtest/gtest.h>

#include "kv/prefix_hash.h"
#include "seeds.h"

namespace roost::kv {
namespace {

std::vector<std::pair<SeqId, Pos>> plain(const std::vector<PrefixTree::Match>& matches) {
  std::vector<std::pair<SeqId, Pos>> result;
  for (const auto& m : matches) result.emplace_back(m.seq, m.length);
  return result;
}

TEST(PrefixTree, FindsEverySequenceThatStartsLikeThePromptLongestFirst) {
  PrefixTree tree;
  tree.insert(0, "", Tokens{1, 2, 3, 4});
  tree.insert(1, "", Tokens{1, 2, 9});
  tree.insert(2, "", Tokens{7});
  tree.insert(3, "", Tokens{1, 2, 3, 4, 5, 6});
  EXPECT_EQ(plain(tree.matches("", Tokens{1, 2, 3, 4, 5, 8}, 1)),
            (std::vector<std::pair<SeqId, Pos>>{{3, 5}, {0, 4}, {1, 2}}));
  EXPECT_EQ(plain(tree.matches("", Tokens{1, 2, 3}, 3)), (std::vector<std::pair<SeqId, Pos>>{{0, 3}, {3, 3}}));
  EXPECT_TRUE(tree.matches("", Tokens{}, 1).empty());
  EXPECT_EQ(tree.check_integrity(), "");
}

TEST(PrefixTree, DifferentSaltsNeverMeet) {
  PrefixTree tree;
  tree.insert(0, "a", Tokens{1, 2, 3});
  EXPECT_TRUE(tree.matches("b", Tokens{1, 2, 3}, 1).empty());
  EXPECT_TRUE(tree.matches("", Tokens{1, 2, 3}, 1).empty());
  EXPECT_EQ(tree.matches("a", Tokens{1, 2, 3}, 1).size(), 1U);
}

TEST(PrefixTree, AgreesWithANaiveModelUnderRandomOperations) {
  for (const auto seed : test::seeds(4)) {
    SCOPED_TRACE("ROOST_TEST_SEED=" + std::to_string(seed));
    test::Dice dice(seed);
    PrefixTree tree;
    std::map<SeqId, std::pair<std::string, Tokens>> naive;
    const auto random_tokens = [&] {
      Tokens t;
      for (int n = dice.roll(0, 12); n > 0; --n) t.push_back(dice.roll(0, 2));
      return t;
    };
    for (int step = 0; step < 3000; ++step) {
      const SeqId seq = dice.roll(0, 15);
      const auto it = naive.find(seq);
      if (it == naive.end()) {
        const std::string salt = dice.one_in(4) ? "s" : "";
        Tokens tokens = random_tokens();
        if (!naive.empty() && dice.one_in(2)) {
          tokens.insert(tokens.begin(), naive.begin()->second.second.begin(), naive.begin()->second.second.end());
        }
        tree.insert(seq, salt, tokens);
        naive[seq] = {salt, tokens};
      } else if (const int what = dice.roll(0, 3); what == 0) {
        tree.erase(seq);
        naive.erase(it);
      } else if (what == 1) {
        const auto keep = static_cast<std::size_t>(dice.roll(0, static_cast<int>(it->second.second.size())));
        it->second.second.resize(keep);
        tree.truncate(seq, static_cast<Pos>(keep));
      } else {
        const Tokens more = random_tokens();
        it->second.second.insert(it->second.second.end(), more.begin(), more.end());
        tree.append(seq, more);
      }
      ASSERT_EQ(tree.check_integrity(), "");
      ASSERT_EQ(tree.size(), naive.size());
      const Tokens prompt = random_tokens();
      const std::string salt = dice.one_in(4) ? "s" : "";
      const Pos at_least = dice.roll(1, 4);
      std::map<SeqId, Pos> expected, found;
      for (const auto& [id, stream] : naive) {
        ASSERT_EQ(tree.tokens(id), stream.second);
        const Pos common = common_prefix(stream.second, prompt);
        if (stream.first == salt && common >= at_least) expected[id] = common;
      }
      Pos last = kNoSeq;
      for (const auto& m : tree.matches(salt, prompt, at_least)) {
        ASSERT_TRUE(last < 0 || m.length <= last);
        last = m.length;
        found[m.seq] = m.length;
      }
      ASSERT_EQ(found, expected);
    }
  }
}

}  // namespace
}  // namespace roost::kv
