// From drawn tokens to text that can be shown: detokenized, whole UTF-8 characters, cut before a stop string. Pure,
// given the tokens' bytes. The sum of all pieces is the same for every way of splitting the tokens' bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/stop_filter.h"
#include "core/utf8.h"

namespace roost::api {

class OutputText {
 public:
  explicit OutputText(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  std::string feed(std::string_view bytes) { return stops_.feed(utf8_.feed(bytes)); }
  // The end of the generation.
  std::string finish() {
    std::string rest = stops_.feed(utf8_.flush());
    return rest += stops_.flush();
  }
  bool stopped() const { return stops_.stopped(); }
  const std::string& stop_string() const { return stops_.matched(); }

 private:
  Utf8Assembler utf8_;
  StopFilter stops_;
};

}  // namespace roost::api
