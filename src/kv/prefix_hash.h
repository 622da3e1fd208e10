// The identity of a prefix: a cumulative hash per position, so that "equal over [0, D)" is one comparison for any D.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/types.h"

namespace roost::kv {

// hashes[i] covers tokens [0, i]: xxHash64 of token i (4 bytes, this machine's order) seeded with the hash before it, 0
// at first.
std::vector<std::uint64_t> prefix_hashes(std::span<const Token> tokens);

// Length of the common start.
Pos common_prefix(std::span<const Token> a, std::span<const Token> b);

}  // namespace roost::kv
