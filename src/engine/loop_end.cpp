// The one way out: every request ends here, so that no path can forget a cell, a sequence, a follower or an answer.
#include <algorithm>
#include <utility>

#include "core/check.h"
#include "engine/engine_loop.h"

namespace roost::engine {

// The asker's last event.
Event EngineLoop::last_event(const Session& s, const Ending& ending) const {
  const Generation& g = *s.generation;
  const TimePoint now = clock_.now();
  if (const auto* error = std::get_if<Error>(&ending)) return Failed{*error};
  const auto& done = std::get<Done>(ending);
  Finished f;
  f.reason = done.reason;
  f.truncated = !done.truncated_reason.empty();
  f.truncated_reason = done.truncated_reason;
  f.timings.prompt_n = g.n_prefilled;
  f.timings.predicted_n = g.n_drawn;
  f.timings.cache_n = s.n_cached;
  f.timings.queued_ms = milliseconds(g.admitted.value_or(now) - g.submitted);
  if (g.prefill_began) f.timings.prompt_ms = milliseconds(g.first_draw.value_or(now) - *g.prefill_began);
  if (g.first_draw) f.timings.predicted_ms = milliseconds(*g.last_draw - *g.first_draw);
  f.timings.tps_ewma = s.tps.tps(now);
  const kv::SeqId seq = s.seq();
  f.ctx_used = seq == kv::kNoSeq ? 0 : kv_.length(seq);
  f.ctx_headroom = session_limit_ - f.ctx_used;
  return f;
}

void EngineLoop::end(Session& s, Ending ending, Keep keep) {
  ROOST_CHECK(s.generation != nullptr || s.birth != nullptr, "an idle session has no request to end");
  changed_ = ended_some_ = true;
  requests_.erase(s.birth != nullptr ? s.birth->id : s.generation->ask.id);
  std::erase(queue_, s.number);
  remember(s.session_id);
  const bool failed = std::holds_alternative<Error>(ending);
  const kv::SeqId seq = s.seq();
  if (failed && s.generation != nullptr && seq == kv::kNoSeq) ++refused_;
  if (seq != kv::kNoSeq) {
    s.seat()->room.release();
    hand_over(s);
  }
  if (s.generation != nullptr) {
    answers_.push_back([ring = s.generation->ask.events, event = last_event(s, ending)] { ring->push(event); });
    s.n_prefilled = s.generation->n_prefilled;
    s.n_drawn = s.generation->n_drawn;
    const bool keeps =
        keep == Keep::cache && !failed && seq != kv::kNoSeq && s.generation->ask.cache_prompt && kv_.length(seq) > 0;
    s.generation.reset();
    if (keeps) {
      // The pool's grace counts from the last use. Without an id nobody comes back as this session.
      Seat held = std::move(*s.seat());
      if (held.pool.id() != kv::kNoPool) pools_.touch(held.pool.id());
      if (s.session_id.empty()) held.pool.reset();
      s.tokens.resize(static_cast<std::size_t>(kv_.length(seq)));
      kv_.announce(seq, s.salt, s.tokens);
      s.tps.reset();
      s.state = Idle{std::move(held.seq), std::move(held.pool), clock_.now()};
      return;
    }
  }

  // Nothing stays. A pool that is complete takes the sequence with its cells along.
  std::vector<Completion<PoolCreated>> completions;
  std::optional<Result<PoolCreated>> answer;
  if (s.birth != nullptr) {
    completions = std::move(s.birth->done);
    if (std::holds_alternative<Born>(ending)) {
      Seat held = std::move(*s.seat());
      held.pool.reset();
      answer = created(add_pool(*s.birth, std::move(s.tokens), std::move(held.seq), s.salt), false, s.birth->warning);
    } else {
      answer = std::get<Error>(ending);
    }
  }
  if (seq != kv::kNoSeq) {
    seats_[static_cast<std::size_t>(seq)] = nullptr;
    if (s.seq() != kv::kNoSeq) {
      if (const kv::PoolId pool = s.pool(); pool != kv::kNoPool) pools_.touch(pool);
      kv_.clear(seq);
    }
  }
  sessions_.erase(s.number);
  for (auto& done : completions) answer_later(std::move(done), *answer);
}

// `leader` ends: who waits for it starts now, or the one that shares most with it takes its place.
void EngineLoop::hand_over(Session& leader) {
  std::vector<Session*> followers;
  for (auto& [number, s] : sessions_) {
    const auto* following = std::get_if<Following>(&s.state);
    if (following != nullptr && following->leader == leader.number) followers.push_back(&s);
  }
  std::stable_sort(followers.begin(), followers.end(), [](const Session* a, const Session* b) {
    return std::get<Following>(a->state).until > std::get<Following>(b->state).until;
  });
  const kv::Pos resident = kv_.length(leader.seq());
  Session* heir = nullptr;
  kv::Pos heir_takes = 0;
  std::vector<SessionNumber> ready;
  for (Session* f : followers) {
    auto& following = std::get<Following>(f->state);
    if (following.until <= resident) {
      ready.push_back(f->number);
    } else if (heir == nullptr) {
      heir = f;
    } else {
      following.leader = heir->number;  // it has at least as much in common with the heir
    }
  }
  for (const SessionNumber number : ready) {
    if (Session* f = find(number)) take_shared(*f, leader.seq(), std::get<Following>(f->state).until);
  }
  if (heir == nullptr) return;
  auto& following = std::get<Following>(heir->state);
  if (const auto* up = std::get_if<Following>(&leader.state)) {
    // The leader had nothing yet and waited itself: the heir waits in its place, for as much as it has in common.
    const kv::Pos until = std::min(following.until, up->until);
    const kv::Pos missing = following.until - until;
    following.leader = up->leader;
    following.until = until;
    if (missing > 0 && !extend(*heir, missing)) {
      end(*heir,
          Error{ErrorKind::kv_exhausted, "the shared part of the prompt was lost and there is no room for it", {}, {}},
          Keep::nothing);
    }
    return;
  }
  heir_takes = std::min(following.until, resident);
  take_shared(*heir, leader.seq(), heir_takes);
}

// An idle cache is let go of.
void EngineLoop::drop_idle(Session& s) {
  ROOST_CHECK(s.idle());
  const kv::SeqId seq = s.seq();
  kv_.clear(seq);
  seats_[static_cast<std::size_t>(seq)] = nullptr;
  sessions_.erase(s.number);
  changed_ = true;
}

}  // namespace roost::engine
