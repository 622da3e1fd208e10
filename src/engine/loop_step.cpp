// The step: compose, decode, sample, account; and what happens when the device says no.
#include <algorithm>
#include <utility>

#include "core/check.h"
#include "engine/engine_loop.h"

namespace roost::engine {
namespace {

constexpr int kNoSlotPatience = 3;     // steps without room before a session is ended for it
constexpr double kPausedViewS = 0.25;  // how often the view follows a paused session while nothing else happens

}  // namespace

StepOutcome EngineLoop::step() {
  ended_some_ = false;
  expire();
  start_followers();
  admit_queued();
  settle();
  const bool advanced = advance();
  settle();
  // What ended may have made room for those who wait: look again before sleeping.
  StepOutcome outcome{.worked = advanced || ended_some_, .wake_at = {}};
  if (!outcome.worked) outcome.wake_at = next_deadline();
  return outcome;
}

// Composes and computes one batch. False: nobody can advance.
bool EngineLoop::advance() {
  std::int32_t prefill_cap = INT32_MAX;
  while (true) {
    const Composition plan = compose_step(prefill_cap);
    if (plan.slices.empty()) {
      if (prefill_cap == INT32_MAX) return false;
      on_no_slot(plan);  // shrunk to nothing
      return true;
    }
    const Batch batch = make_batch(plan);
    const TimePoint began = clock_.now();
    const DecodeStatus status = model_.decode(batch.tokens);
    ++steps_;
    if (const auto prefill = static_cast<std::int32_t>(plan.shape.prefill);
        status == DecodeStatus::no_slot && prefill > 0) {
      prefill_cap = prefill / 2;
      continue;
    }
    if (status == DecodeStatus::no_slot) {
      on_no_slot(plan);
    } else if (status == DecodeStatus::failed) {
      on_failed(plan);
    } else {
      failures_in_a_row_ = 0;
      no_slot_in_a_row_ = 0;
      cost_.observe(plan.shape, milliseconds(clock_.now() - began));
      after_decode(plan, batch.last_index);
    }
    return true;
  }
}

EngineLoop::Batch EngineLoop::make_batch(const Composition& plan) {
  Batch batch;
  for (const Slice& slice : plan.slices) {
    Session& s = *find(slice.session);
    const kv::SeqId seq = s.seq();
    const kv::Pos begin = kv_.length(seq);
    if (!slice.prefill) {
      batch.tokens.push_back({std::get<Decoding>(s.state).pending, begin, seq, true});
    } else {
      if (s.generation != nullptr && !s.generation->prefill_began) s.generation->prefill_began = clock_.now();
      for (kv::Pos pos = begin; pos < begin + slice.tokens; ++pos) {
        const auto i = static_cast<std::size_t>(pos);
        batch.tokens.push_back({s.tokens[i], pos, seq, s.generation != nullptr && i + 1 == s.tokens.size()});
      }
    }
    batch.last_index.push_back(static_cast<std::int32_t>(batch.tokens.size()) - 1);
  }
  return batch;
}

// May the session take part in this step? Sees to its room; pauses it while its ring is full.
bool EngineLoop::can_advance(Session& s) {
  if (s.generation == nullptr) return true;
  Generation& g = *s.generation;
  if (!g.ask.events->has_room()) {
    if (!g.paused_since) g.paused_since = clock_.now();
    return false;
  }
  g.paused_since.reset();
  if (!s.is<Decoding>() || s.seat()->room.left() > 0 || extend(s, 1)) return true;
  end(s, Done{FinishReason::length, "kv_exhausted"});
  return false;
}

Composition EngineLoop::compose_step(std::int32_t prefill_cap) {
  std::vector<DecodeItem> decode;
  std::vector<PrefillItem> prefill;
  std::map<SessionNumber, int> followers;
  for (const auto& [number, s] : sessions_) {
    if (const auto* f = std::get_if<Following>(&s.state)) ++followers[f->leader];
  }
  each([&](Session& s) {
    if (s.is<Decoding>()) {
      if (!can_advance(s)) return;
      decode.push_back({s.number, kv_.length(s.seq()), std::get<Decoding>(s.state).last_step});
    } else if (s.is<Prefilling>()) {
      const kv::Pos next = kv_.length(s.seq());
      kv::Pos remaining = static_cast<kv::Pos>(s.tokens.size()) - next;
      // A full ring stops only the last token: others may wait for what comes before it.
      if (!can_advance(s)) --remaining;
      if (remaining > 0) prefill.push_back({s.number, next, remaining, followers[s.number]});
    }
  });
  ComposeLimits limits;
  limits.batch = options_.batch;
  limits.max_decoding = options_.max_decoding > 0 ? options_.max_decoding : options_.parallel;
  limits.min_prefill = options_.min_prefill;
  limits.max_gap_ms = options_.max_gap_ms;
  limits.prefill_cap = prefill_cap;
  return compose(std::move(decode), std::move(prefill), cost_, limits);
}

void EngineLoop::after_decode(const Composition& plan, const std::vector<std::int32_t>& last_index) {
  // First the cells of all, then the tokens: an ending session may hand cells over that must be counted by then.
  for (const Slice& slice : plan.slices) {
    Session& s = *find(slice.session);
    s.seat()->room.consume(static_cast<std::size_t>(slice.tokens));
    kv_.computed(s.seq(), slice.tokens);
    if (slice.prefill) {
      tokens_prefilled_ += static_cast<std::uint64_t>(slice.tokens);
      if (s.generation != nullptr) s.generation->n_prefilled += slice.tokens;
    } else {
      auto& decoding = std::get<Decoding>(s.state);
      s.tokens.push_back(decoding.pending);
      if (s.generation->ask.cache_prompt) kv_.announce_more(s.seq(), decoding.pending);
      decoding.last_step = steps_;
    }
  }
  const std::int64_t before = static_cast<std::int64_t>(tokens_decoded_);
  for (std::size_t i = 0; i < plan.slices.size(); ++i) {
    Session* s = find(plan.slices[i].session);
    if (s == nullptr) continue;
    if (kv_.length(s->seq()) < static_cast<kv::Pos>(s->tokens.size())) {
      const Submit* ask = s->generation != nullptr ? &s->generation->ask : nullptr;
      if (ask != nullptr && ask->want_progress && ask->events->has_room()) {
        ask->events->push(PrefillProgress{kv_.length(s->seq()), s->n_prompt});
      }
    } else if (s->birth != nullptr) {
      end(*s, Born{});
    } else {
      drawn(*s, last_index[i]);
    }
  }
  if (const auto n = static_cast<std::int64_t>(tokens_decoded_) - before; n > 0) aggregate_.emit(clock_.now(), n);
}

// The logits after the session's last token are there: draws, emits, decides how it goes on.
void EngineLoop::drawn(Session& s, std::int32_t index) {
  Generation& g = *s.generation;
  const auto& limit = g.ask.max_tokens;
  if (limit && *limit == 0) return end(s, Done{FinishReason::length, {}});
  const TimePoint now = clock_.now();
  if (g.n_drawn == 0) {
    g.ask.sampler->accept_prompt(s.tokens);
    g.first_draw = now;
    s.ttft_ms = milliseconds(now - g.submitted);
  }
  Drawn token = g.ask.sampler->draw(index);
  const kv::Token id = token.token;
  ++g.n_drawn;
  g.last_draw = now;
  ++tokens_decoded_;
  s.tps.emit(now, 1);
  if (model_.is_end_of_generation(id) && !g.ask.ignore_eos) return end(s, Done{FinishReason::stop, {}});
  g.ask.events->push(TokenDrawn{std::move(token)});
  if (limit && *limit > 0 && g.n_drawn >= *limit) return end(s, Done{FinishReason::length, {}});
  if (kv_.length(s.seq()) >= session_limit_) return end(s, Done{FinishReason::length, "context"});
  if (auto* decoding = std::get_if<Decoding>(&s.state)) {
    decoding->pending = id;
    return;
  }
  Seat held = std::move(*s.seat());
  s.state = Decoding{std::move(held), id, steps_};
  changed_ = true;
}

// Unreachable while the promises hold. Nothing was computed, so everyone just tries again; when that does not help, the
// youngest session of the batch gives its cells.
void EngineLoop::on_no_slot(const Composition& plan) {
  if (++no_slot_in_a_row_ < kNoSlotPatience) return;
  no_slot_in_a_row_ = 0;
  Session* youngest = nullptr;
  for (auto& [number, s] : sessions_) {
    const bool in_plan =
        std::any_of(plan.slices.begin(), plan.slices.end(), [n = number](const Slice& x) { return x.session == n; });
    if (in_plan || (plan.slices.empty() && (s.is<Prefilling>() || s.is<Decoding>()))) youngest = &s;
  }
  if (youngest == nullptr) return;
  if (youngest->is<Decoding>()) return end(*youngest, Done{FinishReason::length, "kv_exhausted"}, Keep::nothing);
  end(*youngest, Error{ErrorKind::kv_exhausted, "the cache has no room for this prompt", {}, {}}, Keep::nothing);
}

void EngineLoop::on_failed(const Composition& plan) {
  ++decode_failures_;
  ++failures_in_a_row_;
  changed_ = true;
  // Take out what the batch may have left behind before anyone's followers look at it.
  for (const Slice& slice : plan.slices) kv_.discard_beyond_length(find(slice.session)->seq());
  for (const Slice& slice : plan.slices) {
    if (Session* s = find(slice.session)) {
      end(*s, Error{ErrorKind::decode_failed, "the model could not compute a step", {}, {}}, Keep::nothing);
    }
  }
}

// What time ends: clients that do not read, idle caches and session records that nobody came back to, spent pools.
void EngineLoop::expire() {
  const TimePoint now = clock_.now();
  each([&](Session& s) {
    if (s.generation != nullptr && s.generation->paused_since) {
      if (s.generation->ask.events->has_room()) {
        s.generation->paused_since.reset();
      } else if (seconds(now - *s.generation->paused_since) >= options_.slow_client_s) {
        end(s, Done{FinishReason::cancelled, {}}, s.session_id.empty() ? Keep::nothing : Keep::cache);
      }
    } else if (s.idle() && seconds(now - std::get<Idle>(s.state).since) >= options_.session_ttl_s) {
      drop_idle(s);
    }
  });
  std::erase_if(known_, [&](const auto& k) {
    return seconds(now - k.second.last_request) >= options_.session_ttl_s && !busy(k.first);
  });
  for (auto spent = pools_.spent(); !spent.empty(); spent = pools_.spent()) drop_pool(spent.front());
}

std::optional<TimePoint> EngineLoop::next_deadline() const {
  std::optional<TimePoint> earliest;
  const auto consider = [&](TimePoint t) {
    if (!earliest || t < *earliest) earliest = t;
  };
  const auto after = [](TimePoint t, double s) {
    return t + Duration(static_cast<std::int64_t>(std::min(s, 1e8) * 1e9) + 1);
  };
  for (const auto& [number, s] : sessions_) {
    if (s.idle()) consider(after(std::get<Idle>(s.state).since, options_.session_ttl_s));
    if (s.generation != nullptr && s.generation->paused_since) {
      consider(after(*s.generation->paused_since, options_.slow_client_s));
      consider(after(clock_.now(), kPausedViewS));
    }
  }
  if (!queue_.empty()) {
    if (const auto grace = pools_.next_grace_end()) consider(*grace);
  }
  return earliest;
}

}  // namespace roost::engine
