// Commands: what may be asked, and the refusals that need no waiting.
#include <algorithm>
#include <utility>

#include "core/check.h"
#include "engine/engine_loop.h"
#include "kv/prefix_hash.h"

namespace roost::engine {
namespace {

constexpr std::size_t kKnownSessions =
    65'536;  // session records; beyond, the one not heard of for longest is forgotten

bool in_vocabulary(const kv::Tokens& tokens, std::int32_t size) {
  return std::all_of(tokens.begin(), tokens.end(), [size](kv::Token t) { return t >= 0 && t < size; });
}

Error pools_off() { return {ErrorKind::pools_off, "pools are off (--polykv-max-pools 0)", {}, {}}; }

Error no_such_pool(kv::PoolId id) {
  return {ErrorKind::unknown_pool, "there is no pool " + std::to_string(id), {{"pool_id", id}}, {}};
}

}  // namespace

void EngineLoop::handle(EngineCommand command) {
  std::visit([this](auto& c) { on(c); }, command);
}

void EngineLoop::refuse(EngineCommand& command, const Error& error) {
  std::visit(
      [&error](auto& c) {
        using C = std::remove_cvref_t<decltype(c)>;
        if constexpr (std::is_same_v<C, Submit>) {
          if (c.events != nullptr) c.events->push(Failed{error});
        } else if constexpr (!std::is_same_v<C, Cancel>) {
          if (c.done) c.done(error);
        }
      },
      command);
}

void EngineLoop::remember(const std::string& session_id) {
  if (session_id.empty()) return;
  known_[session_id] = {clock_.now()};
  if (known_.size() <= kKnownSessions) return;
  known_.erase(std::min_element(known_.begin(), known_.end(), [](const auto& a, const auto& b) {
    return a.second.last_request < b.second.last_request;
  }));
}

// The asker's claim about a named pool does not hold.
std::optional<Error> EngineLoop::claim_error(const Submit& c) const {
  if (!c.pool_id) return std::nullopt;
  const kv::Pool* pool = pools_.find(*c.pool_id);
  if (pool == nullptr) {
    if (c.pool_strict) return no_such_pool(*c.pool_id);
    return std::nullopt;
  }
  if (!c.shared_prefix_n_tokens) return std::nullopt;
  const std::int32_t claimed = *c.shared_prefix_n_tokens;
  const kv::Pos holds = kv::common_prefix(*pool->tokens, c.prompt);
  if (claimed >= 0 && claimed <= holds) return std::nullopt;
  return Error{ErrorKind::invalid_request,
               "shared_prefix_n_tokens is " + std::to_string(claimed) + ", but the prompt and the pool have " +
                   std::to_string(holds) + " tokens in common",
               {{"shared_prefix_n_tokens", claimed}, {"common_n_tokens", holds}},
               {}};
}

std::optional<Error> EngineLoop::refusal(const Submit& c) const {
  const auto bad = [](ErrorKind kind, std::string message, Fields details = {}) {
    return Error{kind, std::move(message), std::move(details), {}};
  };
  if (requests_.contains(c.id)) return bad(ErrorKind::internal, "the request id is in use");
  if (c.prompt.empty()) return bad(ErrorKind::prompt_required, "the prompt has no tokens");
  if (!in_vocabulary(c.prompt, model_.vocabulary_size())) {
    return bad(ErrorKind::invalid_request, "a token of the prompt is outside of the vocabulary");
  }
  if (c.id_slot && !kv_.slots().in_range(*c.id_slot)) {
    return bad(ErrorKind::invalid_request, "id_slot must be from 0 to " + std::to_string(options_.parallel - 1));
  }
  const auto n_prompt = static_cast<std::int64_t>(c.prompt.size());
  if (n_prompt >= session_limit_) {
    return bad(ErrorKind::exceed_context_size,
               "the prompt has " + std::to_string(n_prompt) + " tokens, the context " + std::to_string(session_limit_) +
                   "; the prompt must be shorter than the context",
               {{"n_prompt_tokens", n_prompt}, {"n_ctx", session_limit_}});
  }
  if (auto error = claim_error(c)) return error;
  if (queue_.size() >= options_.max_queued) {
    return bad(ErrorKind::server_full, "too many requests wait (" + std::to_string(queue_.size()) + ")");
  }
  return std::nullopt;
}

void EngineLoop::on(Submit& c) {
  ++requests_total_;
  ROOST_CHECK(c.events != nullptr && c.sampler != nullptr, "a request has a sampler and a ring");
  if (auto error = refusal(c)) {
    ++refused_;
    c.events->push(Failed{std::move(*error)});
    return;
  }
  if (wake_) c.events->set_drained(wake_);
  remember(c.session_id);
  if (c.pool_id && pools_.find(*c.pool_id) != nullptr)
    pools_.touch(*c.pool_id);  // it is wanted: not to be reclaimed now

  Session& s = new_session(c.session_id, c.cache_salt, std::move(c.prompt));
  s.generation = std::make_unique<Generation>();
  s.generation->submitted = clock_.now();
  s.n_prompt = static_cast<std::int32_t>(s.tokens.size());
  requests_.emplace(c.id, s.number);
  s.generation->ask = std::move(c);
  queue_.push_back(s.number);
  changed_ = true;
}

void EngineLoop::on(Cancel& c) {
  const auto it = requests_.find(c.id);
  if (it == requests_.end()) return;
  Session& s = *find(it->second);
  if (s.birth != nullptr) {
    end(s, Error{ErrorKind::cancelled, "the pool's creation was cancelled", {}, {}}, Keep::nothing);
    return;
  }
  // Nobody can come back to a cancelled request without a session id, so its cache is of no use.
  const bool abandoned = c.finish == FinishReason::cancelled && s.session_id.empty();
  end(s, Done{c.finish, {}}, abandoned ? Keep::nothing : Keep::cache);
}

void EngineLoop::on(PoolCreate& c) {
  if (options_.max_pools == 0) return c.done(pools_off());
  Session* donor = nullptr;
  auto tokens = stream_of(c.source, &donor);
  if (!tokens) return c.done(tokens.error());
  create_pool(c.id, kv::kNoPool, 0, *std::move(tokens), donor, donor != nullptr ? donor->salt : c.cache_salt, c.options,
              std::move(c.done));
}

void EngineLoop::on(PoolFork& c) {
  if (options_.max_pools == 0) return c.done(pools_off());
  const kv::Pool* parent = pools_.find(c.parent);
  if (parent == nullptr) return c.done(no_such_pool(c.parent));
  const kv::Pos d = c.branch_pos.value_or(parent->length());
  if (d < 0 || d > parent->length()) {
    return c.done(Error{ErrorKind::invalid_request,
                        "branch_pos must be from 0 to the parent's length, " + std::to_string(parent->length()),
                        {},
                        {}});
  }
  Session* donor = nullptr;
  auto tokens = stream_of(c.source, &donor);
  if (!tokens) return c.done(tokens.error());
  kv::Tokens full = *std::move(tokens);
  if (c.source_is_suffix && donor == nullptr)
    full.insert(full.begin(), parent->tokens->begin(), parent->tokens->begin() + d);
  const std::span<const kv::Token> inherited(parent->tokens->data(), static_cast<std::size_t>(d));
  if (const kv::Pos same = kv::common_prefix(full, inherited); same < d) {
    const auto at = static_cast<std::size_t>(same);
    return c.done(Error{ErrorKind::prefix_mismatch,
                        "the tokens differ from the parent's at index " + std::to_string(same),
                        {{"index", same},
                         {"pool_token", (*parent->tokens)[at]},
                         {"prompt_token", at < full.size() ? full[at] : kv::Token{-1}}},
                        {}});
  }
  if (donor != nullptr && donor->salt != parent->salt) {
    return c.done(Error{ErrorKind::invalid_request, "the session and the pool have different cache salts", {}, {}});
  }
  create_pool(c.id, c.parent, d, std::move(full), donor, parent->salt, c.options, std::move(c.done));
}

void EngineLoop::on(PoolRetain& c) {
  if (options_.max_pools == 0) return c.done(pools_off());
  kv::Pool* pool = pools_.find(c.pool);
  const bool pins = c.action == RetainAction::pin || c.action == RetainAction::unpin;
  if (pool == nullptr) {
    if (pins) return c.done(no_such_pool(c.pool));
    return c.done(PoolReleased{});
  }
  PoolReleased result{.found = true};
  const std::size_t before = kv_.ledger().used();
  switch (c.action) {
    case RetainAction::pin:
      if (!pool->keep.pinned && !within_pin_limit(pool->seq.id(), 0)) {
        return c.done(
            Error{ErrorKind::kv_exhausted, "pinned pools would hold more than --pin-limit of the cells", {}, {}});
      }
      pools_.pin(c.pool, true);
      break;
    case RetainAction::unpin:
      pools_.pin(c.pool, false);
      break;
    case RetainAction::evict:
      result.pools_released = drop_unused({c.pool});
      break;
    case RetainAction::flush: {
      auto below = pools_.leaves_first(c.pool);
      below.pop_back();
      result.pools_released = drop_unused(below);
      break;
    }
  }
  changed_ = true;
  result.cells_freed = before - kv_.ledger().used();
  answer_later<PoolReleased>(std::move(c.done), result);
}

void EngineLoop::on(PoolRelease& c) {
  if (options_.max_pools == 0) return c.done(pools_off());
  const kv::Pool* pool = pools_.find(c.pool);
  if (pool == nullptr) return c.done(PoolReleased{});
  if (!c.recursive && (!pool->children.empty() || has_births_below(c.pool))) {
    return c.done(Error{ErrorKind::pool_has_children,
                        "the pool has " + std::to_string(pool->children.size()) +
                            " children; release them first, or send \"recursive\": true",
                        {{"children", static_cast<std::int64_t>(pool->children.size())}},
                        {}});
  }
  const std::size_t before = kv_.ledger().used();
  PoolReleased result{.found = true};
  for (const kv::PoolId id : pools_.leaves_first(c.pool)) {
    each([&](Session& s) {
      if (s.birth == nullptr || s.birth->parent != id) return;
      end(s, Error{ErrorKind::unknown_pool, "the parent pool was released", {}, {}}, Keep::nothing);
    });
    drop_pool(id);
    ++result.pools_released;
  }
  result.cells_freed = before > kv_.ledger().used() ? before - kv_.ledger().used() : 0;
  answer_later<PoolReleased>(std::move(c.done), result);
}

void EngineLoop::on(CloseSession& c) {
  SessionClosed result;
  if (c.session_id.empty()) return c.done(result);
  const std::size_t before = kv_.ledger().used();
  result.found = known_.contains(c.session_id);
  each([&](Session& s) {
    const bool owns_birth = s.birth != nullptr && s.birth->options.owner == c.session_id;
    if (s.generation != nullptr && s.session_id == c.session_id) {
      result.found = true;
      end(s, Done{FinishReason::cancelled, {}}, Keep::nothing);
    } else if (owns_birth) {
      end(s, Error{ErrorKind::cancelled, "the owning session was closed", {}, {}}, Keep::nothing);
    } else if (s.idle() && s.session_id == c.session_id) {
      result.found = true;
      drop_idle(s);
    }
  });
  auto owned = pools_.owned_by(c.session_id);
  std::reverse(owned.begin(), owned.end());  // children have higher ids
  for (const kv::PoolId id : owned) {
    kv::Pool& pool = *pools_.find(id);
    if (pool.children.empty() && !has_births_below(id)) {
      drop_pool(id);
      ++result.pools_released;
    } else {
      // Others stand on it. It goes when they have gone.
      pool.keep.owner.clear();
      pools_.pin(id, false);
    }
  }
  known_.erase(c.session_id);
  changed_ = true;
  result.cells_freed = before > kv_.ledger().used() ? before - kv_.ledger().used() : 0;
  answer_later<SessionClosed>(std::move(c.done), result);
}

void EngineLoop::on(CheckIntegrity& c) {
  const std::string broken = check_integrity();
  if (broken.empty()) return c.done(std::string("ok"));
  c.done(Error{ErrorKind::internal, broken, {}, {}});
}

}  // namespace roost::engine
