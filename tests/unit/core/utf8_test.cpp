#include "core/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace roost {
namespace {

// Every way to cut `text` into pieces (2^(n-1) of them).
std::vector<std::vector<std::string>> all_splits(const std::string& text) {
  std::vector<std::vector<std::string>> splits;
  const std::size_t gaps = text.empty() ? 0 : text.size() - 1;
  for (std::size_t mask = 0; mask < (1UL << gaps); ++mask) {
    std::vector<std::string> pieces(1);
    for (std::size_t i = 0; i < text.size(); ++i) {
      pieces.back().push_back(text[i]);
      if (i < gaps && ((mask >> i) & 1U) != 0) pieces.emplace_back();
    }
    splits.push_back(std::move(pieces));
  }
  return splits;
}

TEST(Utf8, TheOutputIsTheSameForEverySplit) {
  const std::string texts[] = {"aé€😀z",
                               "\xF0\x9F\x98",
                               "\xE2\x82"
                               "a",
                               "\xC3\x28",
                               "\xFF\xFE"
                               "a\x80",
                               "\xED\xA0\x80",
                               "\xF4\x90\x80\x80",
                               "\xC0\xAF",
                               "\xE0\x80\x80",
                               "a\xF0\x9F"
                               "b\xE2\x82\xAC"};
  for (const auto& text : texts) {
    const std::string whole = to_valid_utf8(text);
    for (const auto& pieces : all_splits(text)) {
      Utf8Assembler assembler;
      std::string out;
      for (const auto& piece : pieces) {
        const std::string shown = assembler.feed(piece);
        EXPECT_EQ(to_valid_utf8(shown), shown) << "an event that is not valid by itself";
        out += shown;
      }
      out += assembler.flush();
      ASSERT_EQ(out, whole);
    }
  }
}

TEST(Utf8, ValidTextPassesUnchanged) {
  for (const std::string text : {"", "plain", "äöü", "日本語", "👩‍👩‍👧‍👦", "\xF4\x8F\xBF\xBF"})
    EXPECT_EQ(to_valid_utf8(text), text);
}

TEST(Utf8, AnUnfinishedCharacterWaitsAndBecomesOneReplacementAtTheEnd) {
  Utf8Assembler assembler;
  EXPECT_EQ(assembler.feed("\xF0\x9F\x98"), "");
  EXPECT_EQ(assembler.flush(), "\xEF\xBF\xBD");
  EXPECT_EQ(assembler.flush(), "");
}

TEST(Utf8, BytesThatCannotBecomeACharacterAreReplacedOnceForEachMaximalPiece) {
  EXPECT_EQ(to_valid_utf8("a\xFF"
                          "b"),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(to_valid_utf8("\xF0\x9F"
                          "A"),
            "\xEF\xBF\xBD"
            "A");
  EXPECT_EQ(to_valid_utf8("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // a surrogate
}

}  // namespace
}  // namespace roost
