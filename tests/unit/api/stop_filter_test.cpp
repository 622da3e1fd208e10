#include "api/stop_filter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace roost::api {
namespace {

// The rule, written plainly: the first byte at which a stop string is complete; the longest of those that end there.
std::string naive(const std::string& text, const std::vector<std::string>& stops) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const auto& s : stops) {
      if (text.substr(0, end).ends_with(s)) longest = std::max(longest, s.size());
    }
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

// Cuts `text` at the bits of `mask` and checks what must hold for every split.
void check(const std::string& text, const std::vector<std::string>& stops, std::size_t mask) {
  StopFilter filter(stops);
  std::string out, piece, seen;
  for (std::size_t i = 0; i < text.size(); ++i) {
    piece.push_back(text[i]);
    if (((mask >> i) & 1U) == 0 && i + 1 < text.size()) continue;
    seen += piece;
    out += filter.feed(piece);
    piece.clear();
    // Only a proper prefix of a stop string may be held back.
    if (!filter.stopped()) {
      const std::string held = seen.substr(out.size());
      const bool live = held.empty() || std::ranges::any_of(stops, [&](const std::string& s) {
                          return s.size() > held.size() && s.starts_with(held);
                        });
      ASSERT_TRUE(live) << "held back for nothing: '" << held << "'";
    }
  }
  out += filter.flush();
  ASSERT_EQ(out, naive(text, stops)) << text << " split by " << mask;
}

TEST(StopFilter, TheTextIsCutAtTheSamePlaceForEverySplit) {
  const std::vector<std::vector<std::string>> stop_sets = {
      {"ab"}, {"aab", "b"}, {"abab", "ba"}, {"aa", "aaa"}, {"END", "ENDE"}, {"\n\n", "\nUser:"}, {"€"}};
  const std::vector<std::string> texts = {"aaabab", "abaabaab", "xENDEx", "aENENDb", "a\n\nUser",
                                          "x€y",    "bbb",      "",       "aaaaaa"};
  for (const auto& stops : stop_sets) {
    for (const auto& text : texts) {
      const std::size_t gaps = text.empty() ? 0 : text.size() - 1;
      for (std::size_t mask = 0; mask < (1UL << gaps); ++mask) check(text, stops, mask);
    }
  }
}

TEST(StopFilter, AStopStringNeverLeaks) {
  StopFilter filter({"</s>"});
  EXPECT_EQ(filter.feed("hello <"), "hello ");
  EXPECT_EQ(filter.feed("/s"), "");
  EXPECT_EQ(filter.feed("> more"), "");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.matched(), "</s>");
  EXPECT_EQ(filter.feed("still more"), "");
  EXPECT_EQ(filter.flush(), "");
}

TEST(StopFilter, WhatWasHeldBackComesOutWhenItCannotBecomeAStopString) {
  StopFilter filter({"</s>"});
  EXPECT_EQ(filter.feed("a</"), "a");
  EXPECT_EQ(filter.feed("b"), "</b");
  EXPECT_EQ(filter.feed("<"), "");
  EXPECT_EQ(filter.flush(), "<");
}

TEST(StopFilter, WithoutStopStringsEverythingPasses) {
  StopFilter filter({"", ""});
  EXPECT_EQ(filter.feed("anything"), "anything");
  EXPECT_FALSE(filter.stopped());
}

}  // namespace
}  // namespace roost::api
