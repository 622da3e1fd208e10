// Pools: made from tokens (computed through the composer, sharing what is resident) or from a session's cache (at
// once).
#include <algorithm>
#include <utility>

#include "core/check.h"
#include "engine/engine_loop.h"
#include "kv/prefix_hash.h"

namespace roost::engine {

PoolCreated EngineLoop::created(const kv::Pool& pool, bool reused, std::string warning) {
  PoolCreated c;
  c.pool_id = pool.id;
  c.parent = pool.parent;
  c.branch_pos = pool.branch_pos;
  c.prefix_len = pool.length();
  c.own_len = pool.own_length();
  c.seq_id = pool.seq.id();
  c.owner = pool.keep.owner;
  c.reused = reused;
  c.warning = std::move(warning);
  return c;
}

// The tokens of a source; `donor` is the session when it is one's cache.
Result<kv::Tokens> EngineLoop::stream_of(const PoolSource& source, Session** donor) {
  if (const auto* tokens = std::get_if<kv::Tokens>(&source.from)) return *tokens;
  Session* found = nullptr;
  std::string name;
  if (const auto* id = std::get_if<std::string>(&source.from)) {
    name = "session " + *id;
    each([&](Session& s) {
      if (!id->empty() && s.session_id == *id && s.seq() != kv::kNoSeq) found = &s;
    });
  } else {
    const kv::SeqId slot = std::get<kv::SeqId>(source.from);
    name = "slot " + std::to_string(slot);
    if (kv_.slots().in_range(slot)) found = at(slot);
  }
  if (found == nullptr || found->birth != nullptr || kv_.length(found->seq()) == 0) {
    return Error{ErrorKind::session_not_found, name + " has nothing in the cache", {}, {}};
  }
  *donor = found;
  return kv::Tokens(found->tokens.begin(), found->tokens.begin() + kv_.length(found->seq()));
}

bool EngineLoop::within_pin_limit(kv::SeqId adding, std::size_t more) const {
  auto sequences = pools_.lasting();
  if (adding != kv::kNoSeq) sequences.insert(adding);
  std::size_t cells = kv_.ledger().held_by(sequences) + more;
  for (const auto& [number, s] : sessions_) {  // pools in the making that will be pinned
    if (s.birth != nullptr && s.birth->options.pin)
      cells += s.tokens.size() - static_cast<std::size_t>(s.birth->branch_pos);
  }
  return static_cast<double>(cells) <= options_.pin_limit * static_cast<double>(kv_.ledger().total());
}

std::optional<Error> EngineLoop::pool_error(kv::PoolId parent, kv::Pos d, const kv::Tokens& tokens,
                                            const PoolOptions& o) const {
  const auto length = static_cast<std::int64_t>(tokens.size());
  if (length <= d) {
    return Error{ErrorKind::invalid_request,
                 parent == kv::kNoPool ? "a pool has at least one token" : "the fork adds no token after branch_pos",
                 {},
                 {}};
  }
  const std::int32_t vocabulary = model_.vocabulary_size();
  if (std::any_of(tokens.begin(), tokens.end(), [&](kv::Token t) { return t < 0 || t >= vocabulary; })) {
    return Error{ErrorKind::invalid_request, "a token of the pool is outside of the vocabulary", {}, {}};
  }
  if (o.expect_len && *o.expect_len != length) {
    return Error{ErrorKind::prefix_mismatch,
                 "expect_len is " + std::to_string(*o.expect_len) + ", the pool would have " + std::to_string(length) +
                     " tokens",
                 {{"expect_len", *o.expect_len}, {"prefix_len", length}},
                 {}};
  }
  if (o.ttl_s && !(*o.ttl_s >= 0)) return Error{ErrorKind::invalid_request, "ttl_s must not be negative", {}, {}};
  if (length >= session_limit_) {
    return Error{
        ErrorKind::never_fits,
        "the pool would have " + std::to_string(length) + " tokens, the context is " + std::to_string(session_limit_),
        {{"n_prompt_tokens", length}, {"n_ctx", session_limit_}},
        {}};
  }
  const bool lasts = o.pin || (o.ttl_s && *o.ttl_s > kv::kForeverS);
  if (lasts && !within_pin_limit(kv::kNoSeq, static_cast<std::size_t>(length - d))) {
    return Error{ErrorKind::kv_exhausted, "pinned pools would hold more than --pin-limit of the cells", {}, {}};
  }
  if (parent != kv::kNoPool && kv_.traits().recurrent && d > 0 && d != pools_.find(parent)->length()) {
    return Error{ErrorKind::state_not_shareable,
                 "recurrent state exists only at a pool's end: branch_pos must be the parent's length",
                 {},
                 {}};
  }
  return std::nullopt;
}

// A sequence for a pool; lets go of unused pools past their grace when all are taken, and of idle sessions attached to
// them.
std::optional<kv::SeqHandle> EngineLoop::pool_seat(kv::PoolId parent, kv::SeqId spared) {
  while (true) {
    if (auto handle = kv_.pool_ids().take()) return handle;
    if (const auto pools = pools_.reclaimable({parent}); !pools.empty()) {
      drop_pool(pools.front());
      continue;
    }
    const auto going = pools_.evictable([this](kv::SeqId seq) { return is_idle(seq); }, {parent});
    Session* oldest = nullptr;
    for (auto& [number, s] : sessions_) {
      const kv::Pool* pool = s.idle() ? pools_.find(s.pool()) : nullptr;
      if (pool == nullptr || s.seq() == spared || !going.contains(pool->seq.id())) continue;
      if (oldest == nullptr || std::get<Idle>(s.state).since < std::get<Idle>(oldest->state).since) oldest = &s;
    }
    if (oldest == nullptr) return std::nullopt;
    drop_idle(*oldest);
  }
}

void EngineLoop::create_pool(RequestId id, kv::PoolId parent, kv::Pos d, kv::Tokens tokens, Session* donor,
                             std::string salt, const PoolOptions& options, Completion<PoolCreated> done) {
  if (requests_.contains(id)) return done(Error{ErrorKind::internal, "the request id is in use", {}, {}});
  if (auto error = pool_error(parent, d, tokens, options)) return done(*error);
  if (options.shared && donor == nullptr) {
    if (const kv::Pool* same = pools_.find_same(parent, d, tokens, salt)) {
      pools_.touch(same->id);
      return answer_later<PoolCreated>(std::move(done), created(*same, true, {}));
    }
    for (auto& [number, s] : sessions_) {
      if (s.birth != nullptr && s.birth->options.shared && s.birth->parent == parent && s.birth->branch_pos == d &&
          s.salt == salt && s.tokens == tokens) {
        s.birth->done.push_back(std::move(done));
        return;
      }
    }
  }
  // While the pool is looked for room, nothing it will share from may go: the parent by its id, the donor by its
  // sequence.
  auto handle = pool_seat(parent, donor != nullptr ? donor->seq() : kv::kNoSeq);
  if (!handle) {
    return done(Error{ErrorKind::pool_seats_exhausted,
                      "all " + std::to_string(options_.max_pools) + " pools are in use (--polykv-max-pools)",
                      {},
                      {}});
  }
  auto birth = std::make_unique<Birth>();
  birth->id = id;
  birth->parent = parent;
  birth->branch_pos = d;
  birth->options = options;
  if (options.shared) birth->options.owner.clear();
  birth->done.push_back(std::move(done));

  if (donor != nullptr) return pool_from_donor(std::move(birth), std::move(tokens), *std::move(handle), *donor);

  Session& s = new_session({}, salt, std::move(tokens));
  s.birth = std::move(birth);
  SharePlan plan;
  if (parent == kv::kNoPool) {
    plan = plan_share(s, kv::kNoSeq, kv::kNoPool);
  } else if (d > 0) {
    const kv::SeqId source = pools_.find(parent)->seq.id();
    const auto answer = kv_.may_share(source, d, false);
    if (answer.length > 0) plan = {source, d, 0, {}};
    s.birth->warning = answer.reason;
  }
  Need need;
  need.cells = s.tokens.size() - static_cast<std::size_t>(plan.length);
  if (plan.source != kv::kNoSeq) need.spared.insert(plan.source);
  if (parent != kv::kNoPool) need.spared_pools.insert(parent);
  for (const auto& [pool_id, p] : pools_.all()) {
    if (p.seq.id() == plan.source) need.spared_pools.insert(pool_id);
  }
  if (!could_have_room(need) || !make_room(need.cells, need.spared, need.spared_pools)) {
    const auto completions = std::move(s.birth->done);
    sessions_.erase(s.number);
    for (const auto& d2 : completions) {
      d2(Error{ErrorKind::kv_exhausted, "no room for " + std::to_string(need.cells) + " cells", {}, {}});
    }
    return;
  }
  requests_.emplace(id, s.number);
  Seat held{.seq = *std::move(handle), .pool = {}, .room = kv_.reserve(need.cells)};
  if (parent != kv::kNoPool) held.pool = pools_.attach(parent, held.seq.id());
  seat(s, std::move(held), plan);
  finish_birth_if_complete(s);
}

// The session's cache becomes the pool's; the session goes on as one that is attached to it.
void EngineLoop::pool_from_donor(std::unique_ptr<Birth> birth, kv::Tokens tokens, kv::SeqHandle seq, Session& donor) {
  const auto length = static_cast<kv::Pos>(tokens.size());
  const kv::SeqId from = donor.seq();
  // The donor stands still between steps, so even a recurrent state is that of its last token.
  const auto answer = kv_.may_share(from, length, false);
  if (answer.length == 0) {
    for (const auto& done : birth->done) {
      done(Error{ErrorKind::state_not_shareable, std::string(answer.reason), {}, {}});
    }
    return;
  }
  const kv::SeqId to = seq.id();
  const kv::Pool* parent = pools_.find(birth->parent);
  if (parent != nullptr && birth->branch_pos > 0 && kv_.can_rebase()) {
    kv_.share(parent->seq.id(), to, birth->branch_pos);
    kv_.share_more(from, to, birth->branch_pos, length);
  } else {
    kv_.share(from, to, length);
  }
  const kv::Pool& pool = add_pool(*birth, std::move(tokens), std::move(seq), donor.salt);
  attach_donor(donor, pool.id);
  const PoolCreated result = created(pool, false, birth->warning);
  for (auto& done : birth->done) answer_later<PoolCreated>(std::move(done), result);
}

void EngineLoop::attach_donor(Session& donor, kv::PoolId pool) {
  kv::PoolRef& ref = donor.idle() ? std::get<Idle>(donor.state).pool : donor.seat()->pool;
  ref.reset();
  ref = pools_.attach(pool, donor.seq());
  donor.suffix_begin = pools_.find(pool)->length();
}

// Complete from the start: everything was resident.
void EngineLoop::finish_birth_if_complete(Session& s) {
  if (s.birth != nullptr && s.is<Prefilling>() && kv_.length(s.seq()) == static_cast<kv::Pos>(s.tokens.size())) {
    end(s, Born{});
  }
}

kv::Pool& EngineLoop::add_pool(Birth& birth, kv::Tokens tokens, kv::SeqHandle seq, const std::string& salt) {
  const kv::SeqId id = seq.id();
  kv_.announce(id, salt, tokens);
  kv::Pool& pool = pools_.add({.parent = birth.parent,
                               .branch_pos = birth.branch_pos,
                               .tokens = std::move(tokens),
                               .seq = std::move(seq),
                               .salt = salt,
                               .keep = {.pinned = birth.options.pin,
                                        .ephemeral = birth.options.ephemeral,
                                        .ttl_s = birth.options.ttl_s.value_or(options_.pool_ttl_s),
                                        .owner = birth.options.owner}});
  kv_.anchor(id);
  changed_ = true;
  return pool;
}

void EngineLoop::drop_pool(kv::PoolId id) {
  kv::Pool pool = pools_.remove(id);
  kv_.clear(pool.seq.id());
  kv_.anchor_again(pools_.sequences());
  changed_ = true;
}

// Of these pools, children before parents, drops those that are unpinned and unused by then.
std::int32_t EngineLoop::drop_unused(const std::vector<kv::PoolId>& leaves_first) {
  std::int32_t dropped = 0;
  for (const kv::PoolId id : leaves_first) {
    const kv::Pool* pool = pools_.find(id);
    if (pool == nullptr || pool->keep.pinned || !pools_.unused(*pool)) continue;
    drop_pool(id);
    ++dropped;
  }
  return dropped;
}

bool EngineLoop::has_births_below(kv::PoolId id) const {
  return std::any_of(sessions_.begin(), sessions_.end(),
                     [id](const auto& s) { return s.second.birth != nullptr && s.second.birth->parent == id; });
}

}  // namespace roost::engine
