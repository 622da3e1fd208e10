// The snapshot that others read, and the integrity check.
#include <algorithm>
#include <map>
#include <utility>

#include "core/check.h"
#include "engine/engine_loop.h"

namespace roost::engine {
namespace {

constexpr double kPublishEveryS = 0.05;

}  // namespace

EngineViewPtr EngineLoop::view() const {
  const std::lock_guard lock(view_mutex_);
  return view_;
}

void EngineLoop::settle() {
  const bool due = seconds(clock_.now() - published_at_) >= kPublishEveryS;
  if (changed_ || due) publish();
  // An answer may not call back into the loop, but it may be many.
  const auto answers = std::exchange(answers_, {});
  for (const auto& answer : answers) answer();
}

// Who owns what, in this order: pools from the oldest on, then sessions (and pools in the making) from the oldest on.
// An older pool is never a younger one's descendant, so each pool owns its own range.
std::vector<kv::Claim> EngineLoop::claims() const {
  std::vector<kv::Claim> list;
  for (const auto& [id, pool] : pools_.all()) list.push_back({pool.seq.id(), 0, kv::kPosMax});
  for (const auto& [number, s] : sessions_) {
    if (s.seq() == kv::kNoSeq) continue;
    if (s.suffix_begin > 0) list.push_back({s.seq(), 0, s.suffix_begin});
    list.push_back({s.seq(), s.suffix_begin, kv::kPosMax});
  }
  return list;
}

SlotView EngineLoop::slot_view(const Session& s, const Owned& owned) const {
  const TimePoint now = clock_.now();
  SlotView v;
  v.slot = s.seq();
  v.session_id = s.session_id;
  v.pool_id = s.pool();
  v.state = s.is<Following>()    ? SessionState::following
            : s.is<Prefilling>() ? SessionState::prefilling
            : s.is<Decoding>()   ? SessionState::decoding
            : s.is<Queued>()     ? SessionState::queued
                                 : SessionState::idle;
  v.processing = s.running();
  v.ctx_used = kv_.length(s.seq());
  v.ctx_total = session_limit_;
  v.ctx_headroom = session_limit_ - v.ctx_used;
  v.n_shared = std::min(s.suffix_begin, v.ctx_used);
  v.n_suffix = v.ctx_used - v.n_shared;
  v.n_prompt = s.n_prompt;
  v.n_prefilled = s.generation != nullptr ? s.generation->n_prefilled : s.n_prefilled;
  v.n_decoded = s.generation != nullptr ? s.generation->n_drawn : s.n_drawn;
  v.tps_ewma = s.is<Decoding>() ? s.tps.tps(now) : 0;
  v.ttft_ms = s.ttft_ms;
  v.marginal_kv_bytes = owned.all.at(v.slot) * kv_.traits().bytes_per_cell;
  if (const auto it = owned.inherited.find(v.slot); it != owned.inherited.end()) v.inherited_cells = it->second;
  return v;
}

void EngineLoop::fill_counts(EngineView& view) const {
  const auto& ledger = kv_.ledger();
  view.ts = clock_.unix_seconds();
  view.cells_total = ledger.total();
  view.cells_used = ledger.used();
  view.cells_free = ledger.free();
  view.cells_reserved = ledger.outstanding();
  view.protected_cells = ledger.used_without(evictable({}));
  view.evictable = view.cells_used - view.protected_cells;
  view.bytes_per_cell = kv_.traits().bytes_per_cell;
  view.unified = ledger.unified();
  view.seq_ids_used = kv_.slots().used() + kv_.pool_ids().used();
  view.seq_ids_max = kv_.slots().size() + kv_.pool_ids().size();
  view.pools_max = options_.max_pools;
  view.tree_depth = pools_.depth();
  view.n_queued = static_cast<std::int32_t>(queue_.size());
  view.tokens_prefilled_total = tokens_prefilled_;
  view.tokens_decoded_total = tokens_decoded_;
  view.tokens_cached_total = tokens_cached_;
  view.requests_total = requests_total_;
  view.refused_total = refused_;
  view.steps_total = steps_;
  view.decode_failures = decode_failures_;
  view.healthy = failures_in_a_row_ < kUnhealthyAfter;
}

void EngineLoop::fill_sessions(EngineView& view, const Owned& owned) const {
  const TimePoint now = clock_.now();
  double tps = 0;
  int measured = 0;
  for (const auto& [number, s] : sessions_) {
    if (s.is<Prefilling>() || s.is<Following>()) {
      ++view.n_prefilling;
      view.prefill_backlog_tokens += static_cast<std::int64_t>(s.tokens.size()) - kv_.length(s.seq());
    } else if (s.is<Queued>()) {
      view.prefill_backlog_tokens += static_cast<std::int64_t>(s.tokens.size());
    } else if (s.is<Decoding>()) {
      ++view.n_decoding;
      if (s.tps.warming()) {
        ++view.n_warming;
      } else {
        tps += s.tps.tps(now);
        ++measured;
      }
    }
  }
  view.mean_active_tps = measured > 0 ? tps / measured : 0;
  view.aggregate_tps = view.n_decoding > 0 ? aggregate_.rate(now) : 0;
  for (kv::SeqId slot = kv_.slots().begin(); slot < kv_.slots().end(); ++slot) {
    const Session* s = at(slot);
    if (s != nullptr) {
      view.slots.push_back(slot_view(*s, owned));
    } else {
      SlotView empty;
      empty.slot = slot;
      empty.ctx_total = empty.ctx_headroom = session_limit_;
      view.slots.push_back(std::move(empty));
    }
  }
}

void EngineLoop::fill_pools(EngineView& view, const Owned& owned) const {
  const std::size_t bytes = kv_.traits().bytes_per_cell;
  std::map<kv::PoolId, std::size_t> subtree;
  // Children have higher ids: from the newest on, a subtree is summed before its parent needs it.
  for (auto it = pools_.all().rbegin(); it != pools_.all().rend(); ++it) {
    const kv::Pool& pool = it->second;
    std::size_t cells = owned.all.at(pool.seq.id());
    for (const kv::PoolId child : pool.children) cells += subtree.at(child);
    for (const kv::SeqId session : pool.sessions) cells += owned.all.at(session);
    subtree[pool.id] = cells;
  }
  for (const auto& [id, pool] : pools_.all()) {
    PoolView v;
    v.pool_id = id;
    v.parent = pool.parent;
    v.branch_pos = pool.branch_pos;
    v.prefix_len = pool.length();
    v.own_len = pool.own_length();
    v.prefix_hash = pool.hash();
    v.seq_id = pool.seq.id();
    v.owner = pool.keep.owner;
    v.pinned = pool.keep.pinned;
    v.ephemeral = pool.keep.ephemeral;
    v.orphaned_pin = pool.keep.pinned && pools_.unused(pool);
    v.ttl_s = pool.keep.ttl_s;
    v.created_ts = pool.created_ts;
    v.last_access_ts = pool.last_access_ts;
    v.children.assign(pool.children.begin(), pool.children.end());
    v.own_kv_bytes = owned.all.at(pool.seq.id()) * bytes;
    v.subtree_kv_bytes = subtree.at(id) * bytes;
    v.hits = pool.hits;
    v.queries = pool.queries;
    v.tokens = pool.tokens;
    for (const kv::SeqId slot : pool.sessions) {
      const Session* s = at(slot);
      if (s == nullptr || s->birth != nullptr) continue;
      v.sessions.push_back(slot_view(*s, owned));
      v.inherited_cells += v.sessions.back().inherited_cells;
    }
    view.pools.push_back(std::move(v));
  }
  for (const auto& [number, s] : sessions_) view.pools_materializing += s.birth != nullptr ? 1 : 0;
}

void EngineLoop::publish() {
  const auto list = claims();
  const auto cells = kv_.ledger().owned(list);
  Owned owned;
  for (std::size_t i = 0; i < list.size(); ++i) {
    owned.all[list[i].seq] += cells[i];
    if (list[i].end != kv::kPosMax) owned.inherited[list[i].seq] += cells[i];
  }

  auto view = std::make_shared<EngineView>();
  fill_counts(*view);
  fill_sessions(*view, owned);
  fill_pools(*view, owned);
  if (view->n_decoding == 0) aggregate_.reset();
  changed_ = false;
  published_at_ = clock_.now();
  const std::lock_guard lock(view_mutex_);
  view_ = std::move(view);
}

std::string EngineLoop::check_integrity() const {
  if (auto broken = kv_.check_integrity(); !broken.empty()) return broken;
  if (auto broken = pools_.check_integrity(); !broken.empty()) return broken;
  std::size_t unowned = 0;
  const auto cells = kv_.ledger().owned(claims(), &unowned);
  std::size_t sum = 0;
  for (const std::size_t c : cells) sum += c;
  if (unowned != 0) return "loop: " + std::to_string(unowned) + " cells have no owner";
  if (sum != kv_.ledger().used()) return "loop: the owned cells are not the used cells";

  std::size_t promised = 0, slots = 0, births = 0, requests = 0;
  std::set<kv::SeqId> seen;
  for (const auto& [number, s] : sessions_) {
    const auto name = "session " + std::to_string(number);
    const bool asks = s.generation != nullptr || s.birth != nullptr;
    if (s.idle() == asks) return name + ": a request and a state that do not fit";
    if (asks) ++requests;
    const auto id = s.birth != nullptr ? s.birth->id : s.generation != nullptr ? s.generation->ask.id : 0;
    if (asks && (!requests_.contains(id) || requests_.at(id) != number)) return name + ": its request is not known";
    const bool queued = std::find(queue_.begin(), queue_.end(), number) != queue_.end();
    if (queued != s.is<Queued>()) return name + ": queue and state differ";
    if (s.is<Queued>()) continue;
    const kv::SeqId seq = s.seq();
    if (at(seq) != &s || !seen.insert(seq).second) return name + ": its sequence is someone else's";
    ++(s.birth != nullptr ? births : slots);
    if (kv_.length(seq) > static_cast<kv::Pos>(s.tokens.size())) return name + ": more cells than tokens";
    if (const Seat* held = const_cast<Session&>(s).seat()) promised += held->room.left();
    if (const auto* f = std::get_if<Following>(&s.state)) {
      const auto leader = sessions_.find(f->leader);
      if (leader == sessions_.end() || !leader->second.running()) return name + ": follows nobody";
      if (leader->second.is<Decoding>() && kv_.length(leader->second.seq()) < f->until)
        return name + ": waits for ever";
      if (kv_.length(seq) != 0) return name + ": follows with cells of its own";
    }
    if (s.is<Prefilling>() && seq != kv::kNoSeq) {
      const auto missing = s.tokens.size() - static_cast<std::size_t>(kv_.length(seq));
      if (const_cast<Session&>(s).seat()->room.left() < missing) return name + ": its prompt was promised too little";
    }
  }
  if (promised != kv_.ledger().outstanding()) return "loop: promised cells without a session";
  if (requests != requests_.size()) return "loop: a request without a session";
  if (slots != static_cast<std::size_t>(kv_.slots().used())) return "loop: a slot without a session";
  if (births + pools_.size() != static_cast<std::size_t>(kv_.pool_ids().used()))
    return "loop: a pool sequence without a pool";
  return {};
}

}  // namespace roost::engine
