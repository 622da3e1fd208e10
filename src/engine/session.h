// A session of the engine: one request's life, and the idle cache that it leaves behind.
//
//   Queued -> Following{leader, until} -> Prefilling -> Decoding -> Idle -> (gone)
//
// Each state owns what a session in it holds and moves it on; nothing else holds a sequence, cells or a pool for a
// session. A pool that is being computed lives the same life with other work (Birth) and never decodes. A second
// request of the same conversation is a new Session that takes over the idle one's sequence.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/clock.h"
#include "engine/commands.h"
#include "engine/tps_meter.h"
#include "kv/cell_ledger.h"
#include "kv/pool_tree.h"
#include "kv/seq_ids.h"

namespace roost::engine {

using SessionNumber = std::uint64_t;  // in the order of arrival

// What a session that was let in holds. Order matters: the sequence id is given back last.
struct Seat {
  kv::SeqHandle seq;
  kv::PoolRef pool;
  kv::Reservation room;
};

struct Queued {};
// Waits until `leader` has computed the first `until` tokens, which both have in common; then takes them.
struct Following {
  Seat seat;
  SessionNumber leader;
  kv::Pos until;
};
// The tokens from kv.length(seq) on are not computed yet.
struct Prefilling {
  Seat seat;
};
// `pending` was drawn and goes into the next step.
struct Decoding {
  Seat seat;
  kv::Token pending;
  std::uint64_t last_step = 0;
};
struct Idle {
  kv::SeqHandle seq;
  kv::PoolRef pool;
  TimePoint since;
};
using State = std::variant<Queued, Following, Prefilling, Decoding, Idle>;

// A request to generate.
struct Generation {
  Submit ask;
  TimePoint submitted{};
  std::optional<TimePoint> admitted, prefill_began, first_draw, last_draw;
  std::int32_t n_prefilled = 0;
  std::int32_t n_drawn = 0;
  std::optional<TimePoint> paused_since;  // its ring is full since then
};

// A request to make a pool.
struct Birth {
  RequestId id = 0;
  kv::PoolId parent = kv::kNoPool;
  kv::Pos branch_pos = 0;
  PoolOptions options;
  std::string warning;
  std::vector<Completion<PoolCreated>> done;  // several, when others asked for the same shared pool meanwhile
};

struct Session {
  SessionNumber number = 0;
  std::string session_id;  // empty = none
  std::string salt;
  kv::Tokens tokens;  // prompt, then what was drawn and computed; when idle: what is resident
  State state;
  std::unique_ptr<Generation> generation;  // while a request runs
  std::unique_ptr<Birth> birth;            // while a pool is made
  TpsMeter tps;

  // Kept after the request's end, for status.
  kv::Pos suffix_begin = 0;  // tokens shared with a pool when it attached
  std::int32_t n_prompt = 0, n_cached = 0, n_prefilled = 0, n_drawn = 0;
  double ttft_ms = -1;

  explicit Session(double tau_s) : tps(tau_s) {}

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(state);
  }
  bool idle() const { return is<Idle>(); }
  bool running() const { return !is<Idle>() && !is<Queued>(); }

  Seat* seat() {
    if (auto* s = std::get_if<Following>(&state)) return &s->seat;
    if (auto* s = std::get_if<Prefilling>(&state)) return &s->seat;
    if (auto* s = std::get_if<Decoding>(&state)) return &s->seat;
    return nullptr;
  }
  kv::SeqId seq() const {
    if (const auto* s = std::get_if<Idle>(&state)) return s->seq.id();
    const Seat* held = const_cast<Session*>(this)->seat();
    return held == nullptr ? kv::kNoSeq : held->seq.id();
  }
  kv::PoolId pool() const {
    if (const auto* s = std::get_if<Idle>(&state)) return s->pool.id();
    const Seat* held = const_cast<Session*>(this)->seat();
    return held == nullptr ? kv::kNoPool : held->pool.id();
  }
  std::span<const kv::Token> prompt_to_share() const {
    // A generation needs the logits of its last prompt token, so that one is always computed.
    const std::span<const kv::Token> all(tokens);
    return birth != nullptr ? all : all.first(all.size() - 1);
  }
};

}  // namespace roost::engine
