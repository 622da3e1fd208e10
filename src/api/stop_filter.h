// Finds stop strings in a growing text. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace roost::api {

// Passes text on, except a suffix that is a proper prefix of a stop string and so may become one. The first stop string
// to be complete ends the text before it (the longest, where several end at the same byte); neither it nor what follows
// comes out. The output depends on the text alone, never on how it was split.
class StopFilter {
 public:
  // Empty strings are ignored.
  explicit StopFilter(std::vector<std::string> stops);

  // What can be shown now. After stopped() everything is swallowed.
  std::string feed(std::string_view text);
  // The end of the text without a stop string: what was held back.
  std::string flush();

  bool stopped() const { return stopped_; }
  // The stop string that was found; empty before.
  const std::string& matched() const { return matched_; }

 private:
  void take(char c, std::string& out);

  std::vector<std::string> stops_;
  std::string held_;  // the longest suffix of the text that is a proper prefix of a stop string
  std::string matched_;
  bool stopped_ = false;
};

}  // namespace roost::api
