// The words of the cache: tokens, positions, sequence ids, pool ids.
#pragma once

#include <cstdint>
#include <vector>

namespace roost::kv {

using Token = std::int32_t;   // a vocabulary index; equals llama_token
using Pos = std::int32_t;     // a position in a sequence, from 0; equals llama_pos
using SeqId = std::int32_t;   // a sequence of the cache, [0, n_seq_max)
using PoolId = std::int64_t;  // unique for the process; 0 is valid
using Tokens = std::vector<Token>;

inline constexpr SeqId kNoSeq = -1;
inline constexpr PoolId kNoPool = -1;

}  // namespace roost::kv
