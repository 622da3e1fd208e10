// EngineView: the immutable snapshot that the loop publishes; every GET and gauge is rendered from it, so that reads
// never wait for a step. At most 100 ms old while anything runs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kv/types.h"

namespace roost::engine {

enum class SessionState { queued, following, prefilling, decoding, idle };
constexpr const char* to_string(SessionState s) {
  switch (s) {
    case SessionState::queued:
      return "queued";
    case SessionState::following:
    case SessionState::prefilling:
      return "prefill";
    case SessionState::decoding:
      return "decode";
    case SessionState::idle:
      return "idle";
  }
  return "idle";
}

struct SlotView {
  kv::SeqId slot = kv::kNoSeq;
  std::string session_id;  // empty = none
  kv::PoolId pool_id = kv::kNoPool;
  SessionState state = SessionState::idle;
  bool processing = false;
  std::int32_t n_shared = 0;  // tokens shared with the pool
  std::int32_t n_suffix = 0;  // private tokens
  std::int32_t n_prompt = 0, n_prefilled = 0, n_decoded = 0;
  double tps_ewma = 0;  // tokens/s; 0 while warming or not decoding
  double ttft_ms = -1;  // of the last request; -1 = none yet
  std::int32_t ctx_used = 0, ctx_total = 0, ctx_headroom = 0;
  std::size_t marginal_kv_bytes = 0;
  std::size_t inherited_cells =
      0;  // owned cells before its own suffix: of a pool that was released, or of a donor that ended
};

struct PoolView {
  kv::PoolId pool_id = kv::kNoPool;
  kv::PoolId parent = kv::kNoPool;
  std::int32_t branch_pos = 0, prefix_len = 0, own_len = 0;
  std::uint64_t prefix_hash = 0;  // at L
  kv::SeqId seq_id = kv::kNoSeq;
  std::string owner;
  bool pinned = false, ephemeral = false, materializing = false, restored = false, orphaned_pin = false;
  double ttl_s = 0, created_ts = 0, last_access_ts = 0;
  std::vector<kv::PoolId> children;
  std::size_t own_kv_bytes = 0, subtree_kv_bytes = 0, inherited_cells = 0;
  std::uint64_t hits = 0, queries = 0;       // attaches that shared, and all that named it
  std::shared_ptr<const kv::Tokens> tokens;  // [0, L); never null; shared with the pool itself, so views stay cheap
  std::vector<SlotView> sessions;            // attached ones
};

struct EngineView {
  double ts = 0;  // unix seconds
  std::size_t cells_total = 0, cells_used = 0, cells_free = 0, cells_reserved = 0;
  std::size_t evictable = 0, protected_cells = 0;  // evictable + protected = used
  std::size_t bytes_per_cell = 0;
  std::int32_t seq_ids_used = 0, seq_ids_max = 0;
  std::int32_t pools_max = 0, tree_depth = 0;
  std::int32_t pools_materializing = 0;  // not in `pools` yet
  bool unified = true;
  double aggregate_tps = 0, mean_active_tps = 0;
  std::int32_t n_decoding = 0, n_warming = 0, n_prefilling = 0, n_queued = 0;
  std::int64_t prefill_backlog_tokens = 0;
  std::uint64_t tokens_prefilled_total = 0, tokens_decoded_total = 0, tokens_cached_total = 0;
  std::uint64_t requests_total = 0, refused_total = 0, steps_total = 0, decode_failures = 0;
  bool healthy = true;  // false after repeated failed decodes
  std::vector<SlotView> slots;
  std::vector<PoolView> pools;
};

using EngineViewPtr = std::shared_ptr<const EngineView>;

}  // namespace roost::engine
