// Letting sessions in: which slot, what is shared, what is promised. And making room by letting go of what nobody
// needs.
#include <algorithm>
#include <utility>

#include "core/check.h"
#include "engine/engine_loop.h"
#include "kv/prefix_hash.h"

namespace roost::engine {
namespace {

constexpr std::int32_t kExtendCells =
    64;  // a session past its promise gets this many more at a time, while there are any

}  // namespace

// ---- Followers

void EngineLoop::start_followers() {
  each([this](Session& s) {
    const auto* following = std::get_if<Following>(&s.state);
    if (following == nullptr) return;
    Session* leader = find(following->leader);
    ROOST_CHECK(leader != nullptr && leader->running(), "a follower has a leader that runs");
    if (kv_.length(leader->seq()) >= following->until) take_shared(s, leader->seq(), following->until);
  });
}

// A follower stops waiting: it takes `n` tokens of `source` where that is allowed and computes the rest itself.
void EngineLoop::take_shared(Session& s, kv::SeqId source, kv::Pos n) {
  auto& following = std::get<Following>(s.state);
  const auto answer = n > 0 ? kv_.may_share(source, n, true) : kv::ShareAnswer{};
  const kv::Pos missing = following.until - answer.length;  // was the leader's to compute, so it was not promised
  Seat seat = std::move(following.seat);
  if (answer.length > 0) kv_.share(source, seat.seq.id(), answer.length);
  s.state = Prefilling{std::move(seat)};
  if (missing > 0 && !extend(s, missing)) {
    end(s, Error{ErrorKind::kv_exhausted, "the shared part of the prompt was lost and there is no room for it", {}, {}},
        Keep::nothing);
    return;
  }
  begin_prefill(s, answer.reason);
}

// ---- The queue

void EngineLoop::admit_queued() {
  // First come, first served: who waits for room holds up those behind, so that a large request is not starved by small
  // ones. Who waits for another request of its own session, or for a slot it named, lets others pass.
  const std::deque<SessionNumber> waiting = queue_;
  for (const SessionNumber number : waiting) {
    Session* s = find(number);
    if (s == nullptr || !s->is<Queued>()) continue;  // ended meanwhile
    if (admit(*s) == Let::waits_for_room) break;
  }
}

// Another request of its conversation runs, or the slot it named is busy.
bool EngineLoop::waits_for_another(const Session& s) const {
  if (busy(s.session_id)) return true;
  const auto& slot = s.generation->ask.id_slot;
  const Session* there = slot ? at(*slot) : nullptr;
  return there != nullptr && !there->idle();
}

// The pool that the session attaches to: the one it named, or the one that its conversation is attached to already.
const kv::Pool* EngineLoop::pool_for(const Session& s, const Session* own) const {
  const Submit& ask = s.generation->ask;
  if (!ask.cache_prompt) return nullptr;
  const kv::Pool* pool = nullptr;
  if (ask.pool_id) {
    pool = pools_.find(*ask.pool_id);
  } else if (own != nullptr && !s.session_id.empty() && own->session_id == s.session_id) {
    pool = pools_.find(own->pool());
  }
  return pool != nullptr && pool->salt == s.salt ? pool : nullptr;
}

EngineLoop::Let EngineLoop::admit(Session& s) {
  if (waits_for_another(s)) return Let::waits_for_another;
  const Submit& ask = s.generation->ask;
  if (ask.pool_id && ask.pool_strict && pools_.find(*ask.pool_id) == nullptr) {  // it went while the request waited
    end(s, Error{ErrorKind::unknown_pool, "there is no pool " + std::to_string(*ask.pool_id), {}, {}}, Keep::nothing);
    return Let::ended;
  }
  Session* own = ask.cache_prompt ? own_cache(s) : nullptr;
  const kv::Pool* pool = pool_for(s, own);
  SharePlan plan = plan_share(s, own != nullptr ? own->seq() : kv::kNoSeq, pool != nullptr ? pool->id : kv::kNoPool);
  const auto slot = choose_slot(s, own, plan);
  if (!slot) return Let::waits_for_room;
  Need need = need_of(s, *slot, plan, pool);
  if (!could_have_room(need)) {
    if (never_has_room(s, need, plan)) {
      end(s, Error{ErrorKind::kv_exhausted, "pinned pools leave too few cells for this request", {}, {}},
          Keep::nothing);
      return Let::ended;
    }
    if (anyone_runs()) return Let::waits_for_room;
    // Nobody will free cells. What it would share from may be what stands in its way: do without.
    plan = SharePlan{
        .source = kv::kNoSeq, .length = 0, .leader = 0, .reason = "the cells of the prefix's holder were needed"};
    pool = nullptr;
    need = need_of(s, *slot, plan, pool);
    if (!could_have_room(need)) return Let::waits_for_room;  // until a pool's grace ends
  }

  kv::SeqHandle handle = take_slot(s, *slot, need.keep);
  if (!make_room(need.cells, need.spared, need.spared_pools)) {
    // could_have_room() counted right, so this is unreachable; the request waits with an empty slot rather than aborts.
    seats_[static_cast<std::size_t>(*slot)] = nullptr;
    kv_.clear(*slot);
    return Let::waits_for_room;
  }
  Seat held{.seq = std::move(handle), .pool = {}, .room = kv_.reserve(need.cells)};
  if (pool != nullptr) held.pool = pools_.attach(pool->id, *slot);
  std::erase(queue_, s.number);
  s.generation->admitted = clock_.now();
  seat(s, std::move(held), plan);
  // The conversation's cache in another slot is of no use any more.
  if (Session* old = idle_of(s.session_id); old != nullptr) drop_idle(*old);
  return Let::in;
}

// The slot is the session's from now on, with the first `kept` tokens of the idle cache that was in it.
kv::SeqHandle EngineLoop::take_slot(Session& s, kv::SeqId slot, kv::Pos kept) {
  kv::SeqHandle handle;
  if (Session* occupant = at(slot); occupant != nullptr) {
    handle = std::move(std::get<Idle>(occupant->state).seq);
    sessions_.erase(occupant->number);
    if (kept == 0) {
      kv_.clear(slot);
    } else {
      ROOST_CHECK(kv_.truncate(slot, kept), "may_share() said that this part can be kept");
    }
  } else {
    auto taken = kv_.slots().take(slot);
    ROOST_CHECK(taken.has_value(), "choose_slot() gives a free slot");
    handle = *std::move(taken);
  }
  seats_[static_cast<std::size_t>(slot)] = &s;
  return handle;
}

// The idle cache that this request continues: its session's, or without an id the anonymous one that it extends
// furthest.
Session* EngineLoop::own_cache(const Session& s) {
  if (const auto& slot = s.generation->ask.id_slot) return at(*slot);
  if (!s.session_id.empty()) return idle_of(s.session_id);
  Session* best = nullptr;
  for (const auto& match : kv_.streams().matches(s.salt, s.prompt_to_share(), 1)) {
    Session* candidate = at(match.seq);
    if (candidate == nullptr || !candidate->idle() || !candidate->session_id.empty()) continue;
    // Less than half of it in common is another conversation: better shared from than cut down.
    if (2 * match.length < kv_.length(match.seq)) continue;
    best = candidate;
    break;  // matches come longest first
  }
  return best;
}

EngineLoop::SharePlan EngineLoop::plan_share(const Session& s, kv::SeqId own, kv::PoolId pool_id) const {
  SharePlan ready, follow;
  if (s.generation != nullptr && !s.generation->ask.cache_prompt) return ready;
  const kv::Pool* pool = pools_.find(pool_id);
  const kv::SeqId pool_seq = pool != nullptr ? pool->seq.id() : kv::kNoSeq;
  const bool ask_all = s.birth != nullptr || options_.auto_share;
  kv::Pos refused = 0;
  std::string reason;
  int best_rank = 0;
  for (const auto& match : kv_.streams().matches(s.salt, s.prompt_to_share(), 1)) {
    const bool named = match.seq == own || match.seq == pool_seq;
    if (!named && (!ask_all || match.length < options_.auto_share_min)) continue;
    const Session* holder = at(match.seq);
    if (holder != nullptr && holder->number == s.number) continue;
    const bool moves = holder != nullptr && !holder->idle();
    const kv::Pos resident = kv_.length(match.seq);
    if (match.length > resident) {
      // Still being computed. A recurrent state will be past the common part before anyone could take it.
      if (moves && !kv_.traits().recurrent && match.length > follow.length) {
        follow = {match.seq, match.length, holder->number, {}};
      }
    }
    const kv::Pos usable = std::min(match.length, resident);
    if (usable < (named ? 1 : options_.auto_share_min)) continue;
    const auto answer = kv_.may_share(match.seq, usable, moves);
    if (answer.length == 0) {
      if (usable > refused) {
        refused = usable;
        reason = answer.reason;
      }
      continue;
    }
    // Equal lengths: the pool before the own cache, so that a conversation moves onto the pool that covers it (unless
    // it is there already), and both before anyone else's.
    int rank = match.seq == pool_seq ? 3 : match.seq == own ? 2 : 1;
    if (rank == 2 && pool != nullptr && kv_.ledger().shared_prefix(own, pool_seq) >= answer.length) rank = 4;
    if (answer.length > ready.length || (answer.length == ready.length && rank > best_rank)) {
      ready = {match.seq, answer.length, 0, {}};
      best_rank = rank;
    }
  }
  if (refused > ready.length) ready.reason = reason;
  if (follow.length >= ready.length + options_.auto_share_min) return follow;
  return ready;
}

// The slot for this request; empty when all are busy. A slot with an idle session in it is taken over.
std::optional<kv::SeqId> EngineLoop::choose_slot(const Session& s, Session* own, const SharePlan& plan) {
  if (s.generation->ask.id_slot) return *s.generation->ask.id_slot;
  // An anonymous cache that is not the source after all is left alone.
  if (own != nullptr && (!own->session_id.empty() || plan.source == own->seq())) return own->seq();
  for (kv::SeqId slot = kv_.slots().begin(); slot < kv_.slots().end(); ++slot) {
    if (!kv_.slots().taken(slot)) return slot;
  }
  Session* oldest = nullptr;
  Session* source = nullptr;
  for (kv::SeqId slot = kv_.slots().begin(); slot < kv_.slots().end(); ++slot) {
    Session* there = at(slot);
    if (there == nullptr || !there->idle()) continue;
    if (slot == plan.source) {
      source = there;
    } else if (oldest == nullptr || std::get<Idle>(there->state).since < std::get<Idle>(oldest->state).since) {
      oldest = there;
    }
  }
  if (oldest != nullptr) return oldest->seq();
  if (source != nullptr) return source->seq();
  return std::nullopt;
}

void EngineLoop::seat(Session& s, Seat held, const SharePlan& plan) {
  const kv::SeqId seq = held.seq.id();
  seats_[static_cast<std::size_t>(seq)] = &s;
  if (s.generation == nullptr || s.generation->ask.cache_prompt) kv_.announce(seq, s.salt, s.tokens);
  changed_ = true;
  if (plan.leader != 0) {
    s.state = Following{std::move(held), plan.leader, plan.length};
    return;
  }
  if (plan.length > 0 && plan.source != seq) kv_.share(plan.source, seq, plan.length);
  s.state = Prefilling{std::move(held)};
  begin_prefill(s, plan.reason);
}

// The session has what it shares; tells the asker.
void EngineLoop::begin_prefill(Session& s, std::string_view no_share_reason) {
  changed_ = true;
  const kv::SeqId seq = s.seq();
  s.n_cached = kv_.length(seq);
  if (s.generation == nullptr) return;
  tokens_cached_ += static_cast<std::uint64_t>(s.n_cached);
  const Submit& ask = s.generation->ask;
  Admitted admitted;
  admitted.slot = seq;
  admitted.n_prompt = s.n_prompt;
  admitted.n_cached = s.n_cached;
  admitted.no_share_reason = no_share_reason;
  kv::Pool* named = ask.pool_id ? pools_.find(*ask.pool_id) : nullptr;
  admitted.pool_unknown = ask.pool_id && named == nullptr;
  if (named != nullptr) {
    ++named->queries;
    if (!ask.cache_prompt) {
      admitted.no_share_reason = "cache_prompt is false";
    } else if (named->salt != s.salt) {
      admitted.no_share_reason = "the pool was made under another cache_salt";
    }
  }
  if (kv::Pool* pool = pools_.find(s.pool()); pool != nullptr) {
    const kv::Pos common = kv::common_prefix(*pool->tokens, s.tokens);
    const kv::Pos shareable = std::min(common, s.n_cached);
    if (kv_.can_rebase() && shareable > 0) kv_.rebase(pool->seq.id(), seq, shareable);
    admitted.pool_id = pool->id;
    admitted.pool_len = pool->length();
    admitted.n_pool_shared =
        kv_.traits().unified ? std::min(shareable, kv_.ledger().shared_prefix(pool->seq.id(), seq)) : shareable;
    if (admitted.n_pool_shared > 0) ++pool->hits;
    if (common < pool->length()) {
      const auto i = static_cast<std::size_t>(common);
      admitted.divergence = Divergence{common, (*pool->tokens)[i], i < s.tokens.size() ? s.tokens[i] : kv::Token{-1}};
    }
    s.suffix_begin = admitted.n_pool_shared;
  }
  if (ask.events->has_room()) ask.events->push(std::move(admitted));
}

// ---- Room

bool EngineLoop::is_idle(kv::SeqId seq) const {
  const Session* there = at(seq);
  return there != nullptr && there->idle();
}

// The sequences that could be let go of, but for those spared. The session in the slot that is about to be taken over
// lets go of its pool in any case.
std::set<kv::SeqId> EngineLoop::evictable(const Need& need) const {
  const auto lets_go = [&](kv::SeqId seq) { return is_idle(seq) && (seq == need.slot || !need.spared.contains(seq)); };
  auto going = pools_.evictable(lets_go, need.spared_pools);
  for (const auto& [number, s] : sessions_) {
    if (s.idle()) going.insert(s.seq());
  }
  for (const kv::SeqId seq : need.spared) going.erase(seq);
  return going;
}

EngineLoop::Need EngineLoop::need_of(const Session& s, kv::SeqId slot, const SharePlan& plan,
                                     const kv::Pool* pool) const {
  Need need;
  need.cells = static_cast<std::size_t>(s.n_prompt - plan.length + reserve_for(s));
  need.slot = slot;
  // What is kept of the slot's cache: the shared part when the slot is the source, else nothing.
  need.keep = plan.source == slot ? plan.length : 0;
  need.spared.insert(slot);
  if (pool != nullptr) need.spared_pools.insert(pool->id);
  if (plan.source != kv::kNoSeq) {
    need.spared.insert(plan.source);
    for (const auto& [id, p] : pools_.all()) {
      if (p.seq.id() == plan.source) need.spared_pools.insert(id);
    }
  }
  return need;
}

bool EngineLoop::could_have_room(const Need& need) const {
  const auto& ledger = kv_.ledger();
  if (ledger.reservable() >= need.cells) return true;  // split caches too: each stream is as long as a session may be
  const std::size_t used = ledger.used_without(evictable(need), need.slot, need.keep);
  return used + ledger.outstanding() + need.cells <= ledger.total();
}

// Lets go of idle caches, the longest idle first, then of unused pools past their grace, until `cells` can be promised.
bool EngineLoop::make_room(std::size_t cells, const std::set<kv::SeqId>& spared,
                           const std::set<kv::PoolId>& spared_pools) {
  while (kv_.ledger().reservable() < cells) {
    Session* oldest = nullptr;
    for (auto& [number, s] : sessions_) {
      if (!s.idle() || spared.contains(s.seq())) continue;
      if (oldest == nullptr || std::get<Idle>(s.state).since < std::get<Idle>(oldest->state).since) oldest = &s;
    }
    if (oldest != nullptr) {
      drop_idle(*oldest);
      continue;
    }
    const auto pools = pools_.reclaimable(spared_pools);
    if (pools.empty()) return false;
    drop_pool(pools.front());
  }
  return true;
}

// Too large even when everything has gone that ever will, with and without what it shares.
bool EngineLoop::never_has_room(const Session& s, const Need& need, const SharePlan& plan) const {
  const auto& ledger = kv_.ledger();
  auto staying = pools_.lasting();
  const auto full = static_cast<std::size_t>(s.n_prompt + reserve_for(s));
  if (ledger.held_by(staying) + full <= ledger.total()) return false;
  if (plan.source == kv::kNoSeq) return true;
  staying.insert(plan.source);
  return ledger.held_by(staying) + need.cells > ledger.total();
}

bool EngineLoop::anyone_runs() const {
  return std::any_of(sessions_.begin(), sessions_.end(), [](const auto& s) { return s.second.running(); });
}

// Cells for the answer, promised at admission.
std::int32_t EngineLoop::reserve_for(const Session& s) const {
  std::int32_t reserve = std::min(session_limit_ - s.n_prompt, options_.default_reserve);
  const auto& asked = s.generation->ask.max_tokens;
  if (asked && *asked >= 0) reserve = std::min(reserve, *asked);
  return std::max(1, reserve);
}

// Promises at least `at_least` more cells to a session, for a decoding one a few more while there are any.
bool EngineLoop::extend(Session& s, kv::Pos at_least) {
  const std::set<kv::SeqId> spared{s.seq()};
  const std::set<kv::PoolId> spared_pools{s.pool()};
  kv::Pos wanted = at_least;
  if (s.is<Decoding>()) wanted = std::max(at_least, std::min(kExtendCells, session_limit_ - kv_.length(s.seq())));
  make_room(static_cast<std::size_t>(wanted), spared, spared_pools);
  const std::size_t n = std::min(static_cast<std::size_t>(wanted), kv_.ledger().reservable());
  if (n < static_cast<std::size_t>(at_least)) return false;
  s.seat()->room.extend(n);
  return true;
}

}  // namespace roost::engine
