#include "api/output_text.h"

#include <gtest/gtest.h>

#include <string>

namespace roost::api {
namespace {

std::string streamed(const std::string& bytes, std::size_t mask, const std::vector<std::string>& stops) {
  OutputText text(stops);
  std::string out, piece;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    piece.push_back(bytes[i]);
    if (((mask >> i) & 1U) == 0 && i + 1 < bytes.size()) continue;
    const std::string shown = text.feed(piece);
    EXPECT_EQ(to_valid_utf8(shown), shown);
    out += shown;
    piece.clear();
  }
  return out + text.finish();
}

TEST(OutputText, StreamedTextIsTheWholeTextForEverySplitOfTheBytes) {
  const std::vector<std::vector<std::string>> stop_sets = {{}, {"€!"}, {"ü", "aü"}, {"\xEF\xBF\xBD"}};
  for (const std::string bytes : {"aü€!b", "€!", "x\xE2\x82", "a\xC3", "aü\xF0\x9F\x98\x80",
                                  "\xFF"
                                  "ab"}) {
    for (const auto& stops : stop_sets) {
      const std::string whole = streamed(bytes, 0, stops);
      for (std::size_t mask = 0; mask < (1UL << (bytes.size() - 1)); ++mask) {
        ASSERT_EQ(streamed(bytes, mask, stops), whole);
      }
    }
  }
}

}  // namespace
}  // namespace roost::api
