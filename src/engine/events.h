// What the engine tells the asker of a request, in order: Admitted, any number of PrefillProgress and TokenDrawn, then
// exactly one of Finished or Failed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "core/error.h"
#include "engine/sampler.h"
#include "kv/types.h"

namespace roost::engine {

// The first place where a prompt and the pool (or own cache) it was matched against differ.
struct Divergence {
  std::int32_t index;      // position
  kv::Token pool_token;    // -1: past the pool's end
  kv::Token prompt_token;  // -1: past the prompt's end
};

struct Admitted {
  kv::SeqId slot = kv::kNoSeq;
  std::int32_t n_prompt = 0;         // tokens of the prompt
  std::int32_t n_cached = 0;         // of them not prefilled: found in the cache, whoever's it was
  kv::PoolId pool_id = kv::kNoPool;  // the pool attached to
  std::int32_t pool_len = 0;         // its length L
  std::int32_t n_pool_shared = 0;    // tokens shared with it
  bool pool_unknown = false;         // a pool was named that does not exist
  std::optional<Divergence> divergence;
  std::string no_share_reason;  // why less was shared than matched (sliding window, recurrent state); usually empty
};

struct PrefillProgress {
  std::int32_t done = 0;  // prompt tokens in the cache
  std::int32_t total = 0;
};

struct TokenDrawn {
  Drawn drawn;
};

enum class FinishReason { stop, length, cancelled };

struct Timings {
  std::int32_t prompt_n = 0;     // tokens prefilled
  double prompt_ms = 0;          // from the first prefilled token's step to the first drawn token
  std::int32_t predicted_n = 0;  // tokens drawn
  double predicted_ms = 0;       // from the first to the last drawn token
  std::int32_t cache_n = 0;      // prompt tokens that were cached
  double queued_ms = 0;          // waited for a sequence
  double tps_ewma = 0;           // experienced tokens/s at the end
};

struct Finished {
  FinishReason reason = FinishReason::stop;
  bool truncated = false;        // ended by the context or the cache, not by the model or max_tokens
  std::string truncated_reason;  // "context", "kv_exhausted"
  Timings timings;
  std::int32_t ctx_used = 0;
  std::int32_t ctx_headroom = 0;
};

struct Failed {
  Error error;
};

using Event = std::variant<Admitted, PrefillProgress, TokenDrawn, Finished, Failed>;

}  // namespace roost::engine
