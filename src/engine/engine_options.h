// What the engine loop is told at its start; from the configuration table (names as there) by whoever builds the
// engine.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/limits.h"
#include "kv/kv_port.h"

namespace roost::engine {

struct EngineOptions {
  kv::SeqId parallel = 8;               // slots: sequences for sessions, ids [0, parallel)
  std::int32_t max_pools = 16;          // pools at once, ids [parallel, parallel + max_pools); 0 = pools off
  std::int32_t max_decoding = 0;        // sessions that advance per step; 0 = parallel
  std::int32_t batch = 2048;            // tokens of one step at most
  bool auto_share = true;               // share the longest resident prefix without being asked
  std::int32_t auto_share_min = 32;     // tokens; a shorter common prefix is computed again
  std::int32_t min_prefill = 32;        // prompt tokens that a step takes at least while prompts wait
  double max_gap_ms = 200;              // bound of a step while sessions decode
  std::int32_t default_reserve = 1024;  // cells reserved for an answer at most, at first
  double pool_ttl_s = 60;               // an unused unpinned pool is kept this long before it may be reclaimed
  double pin_limit = 0.8;               // share of the cells that pinned pools may hold
  double session_ttl_s = 600;           // a session's record and idle cache end this long after its last request
  double tps_tau_ms = 2000;             // time constant of the tokens/s window
  std::size_t max_queued = 256;         // requests waiting for a sequence; more are refused (server_full)
  double slow_client_s = 30;            // a full EventRing may stand this long before its session is cancelled
  std::int32_t session_limit = 0;       // tokens of one session (n_ctx); 0 = min(cells, training length)
  std::size_t command_queue = limits::kCommandQueue;
};

// Sequences that the cache must have for these options: slots, pools, and above them one anchor sequence when the model
// has a sliding window and the cache is unified (KvTraits::n_seq must be at least this; libllama allows 256).
constexpr kv::SeqId sequences_needed(const EngineOptions& o, bool sliding_window, bool unified) {
  return o.parallel + o.max_pools + (o.max_pools > 0 && sliding_window && unified ? 1 : 0);
}

}  // namespace roost::engine
