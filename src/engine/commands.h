// What can be asked of the engine loop. Each command carries its own completion, called on the engine thread between
// steps; the asker wraps it so that it runs on its own executor. Commands take effect between steps only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "core/result.h"
#include "engine/event_ring.h"
#include "engine/sampler.h"
#include "engine/view.h"
#include "kv/types.h"

namespace roost::engine {

template <class T>
using Completion = std::function<void(Result<T>)>;

using RequestId = std::uint64_t;  // chosen by the asker, unique for the process

// Generate. Answers through `events` alone, a refusal included (Failed).
struct Submit {
  RequestId id = 0;
  kv::Tokens prompt;       // at least one token, all inside the vocabulary
  std::string session_id;  // empty = none
  std::string cache_salt;  // sharing happens only between equal salts
  std::optional<kv::PoolId> pool_id;
  bool pool_strict = false;                            // an unknown pool is an error, not a full prefill
  std::optional<std::int32_t> shared_prefix_n_tokens;  // the asker's claim; checked
  std::optional<kv::SeqId> id_slot;
  std::optional<std::int32_t> max_tokens;  // empty = as long as there is room
  bool cache_prompt = true;                // false: share nothing, keep nothing
  bool ignore_eos = false;
  bool want_progress = false;  // send PrefillProgress
  std::unique_ptr<Sampler> sampler;
  std::shared_ptr<EventRing> events;
};

// Ends a request wherever it is. `finish` is what the asker wants as reason: a stop string was seen (stop), or nobody
// reads any more (cancelled). Unknown ids are ignored: the request may have ended by itself.
struct Cancel {
  RequestId id = 0;
  FinishReason finish = FinishReason::cancelled;
};

struct PoolOptions {
  bool pin = false;
  bool ephemeral = false;  // dropped as soon as unused
  std::optional<double> ttl_s{};
  std::string owner{};                       // session id; empty = unowned
  bool shared = false;                       // find or create an unowned root with the same tokens
  std::optional<std::int32_t> expect_len{};  // 409 if the pool would have another length
};

// Exactly one source: tokens, or a session's (or slot's) cached stream.
struct PoolSource {
  std::variant<kv::Tokens, std::string /*session id*/, kv::SeqId /*slot*/> from;
};

struct PoolCreated {
  kv::PoolId pool_id = kv::kNoPool;
  kv::PoolId parent = kv::kNoPool;
  std::int32_t branch_pos = 0;
  std::int32_t prefix_len = 0;
  std::int32_t own_len = 0;
  kv::SeqId seq_id = kv::kNoSeq;
  std::string owner;
  bool reused = false;
  std::string warning;
};

// Completes when [0, L) is materialized. Cancelled by Cancel{id}.
struct PoolCreate {
  RequestId id = 0;
  PoolSource source;
  PoolOptions options;
  std::string cache_salt;
  Completion<PoolCreated> done;
};

struct PoolFork {
  RequestId id = 0;
  kv::PoolId parent = kv::kNoPool;
  std::optional<std::int32_t> branch_pos;  // default the parent's length
  PoolSource source;
  bool source_is_suffix = false;  // tokens are [D, L) only
  PoolOptions options;
  Completion<PoolCreated> done;
};

struct PoolReleased {
  bool found = false;
  std::size_t cells_freed = 0;
  std::int32_t pools_released = 0;
};

enum class RetainAction { pin, unpin, evict, flush };
struct PoolRetain {
  kv::PoolId pool = kv::kNoPool;
  RetainAction action = RetainAction::pin;
  Completion<PoolReleased> done;
};

struct PoolRelease {
  kv::PoolId pool = kv::kNoPool;
  bool recursive = false;
  Completion<PoolReleased> done;
};

struct SessionClosed {
  bool found = false;
  std::int32_t pools_released = 0;
  std::size_t cells_freed = 0;
};
struct CloseSession {
  std::string session_id;
  Completion<SessionClosed> done;
};

// Runs `check` of every structure against the cache itself; Error internal names the broken invariant.
struct CheckIntegrity {
  Completion<std::string> done;  // "ok"
};

// SetPolicy, Compact and Save (pages 11 and 10) join this list with the parts that need them.
using EngineCommand =
    std::variant<Submit, Cancel, PoolCreate, PoolFork, PoolRetain, PoolRelease, CloseSession, CheckIntegrity>;

}  // namespace roost::engine
