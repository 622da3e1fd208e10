#include "kv/prefix_hash.h"

#include <xxhash.h>

#include <algorithm>

namespace roost::kv {

std::vector<std::uint64_t> prefix_hashes(std::span<const Token> tokens) {
  std::vector<std::uint64_t> hashes;
  hashes.reserve(tokens.size());
  std::uint64_t hash = 0;
  for (const Token token : tokens) {
    hash = XXH64(&token, sizeof token, hash);
    hashes.push_back(hash);
  }
  return hashes;
}

Pos common_prefix(std::span<const Token> a, std::span<const Token> b) {
  const std::size_t n = std::min(a.size(), b.size());
  const auto difference = std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n), b.begin());
  return static_cast<Pos>(difference.first - a.begin());
}

}  // namespace roost::kv
