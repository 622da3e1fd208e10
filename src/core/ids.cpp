#include "core/ids.h"

#include <sys/random.h>

#include <algorithm>
#include <array>

#include "core/check.h"

namespace roost {

std::string random_hex(std::size_t bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<unsigned char, 256> raw{};
  ROOST_CHECK(bytes <= raw.size());
  std::size_t have = 0;
  while (have < bytes) {
    const ssize_t n = ::getrandom(raw.data() + have, bytes - have, 0);
    if (n > 0) have += static_cast<std::size_t>(n);
  }
  std::string out;
  out.reserve(bytes * 2);
  for (std::size_t i = 0; i < bytes; ++i) {
    out.push_back(kDigits[raw[i] >> 4U]);
    out.push_back(kDigits[raw[i] & 15U]);
  }
  return out;
}

bool is_plain_session_id(std::string_view id) {
  const auto legal = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '~' || c == '-';
  };
  return !id.empty() && id.size() <= kSessionIdMax && std::ranges::all_of(id, legal);
}

}  // namespace roost
