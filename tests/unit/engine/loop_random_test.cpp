// The whole loop under random commands, failures and time, on every layout of the cache. After each step every
// structure is checked; every request ends; what a request was answered is what an engine of its own would have
// answered; and the same seed gives the same run. ROOST_TEST_SEED=n replays a run, ROOST_TEST_STEPS=n makes runs
// longer.
#include <gtest/gtest.h>

#include "../kv/seeds.h"
#include "loop_harness.h"

namespace roost::engine::test {
namespace {

using roost::test::Dice;

int steps_per_run() {
  const char* given = std::getenv("ROOST_TEST_STEPS");
  return given != nullptr ? std::atoi(given) : 250;
}

World world_of(std::uint64_t seed) {
  World w;
  w.traits = {.cells = 160, .n_seq = 10, .bytes_per_cell = 1};
  w.options = {.parallel = 4,
               .max_pools = 5,
               .batch = 24,
               .auto_share_min = 3,
               .min_prefill = 4,
               .default_reserve = 12,
               .pool_ttl_s = 5,
               .session_ttl_s = 40,
               .max_queued = 12,
               .slow_client_s = 3};
  w.model.end_of_generation_in = 20;
  switch (seed % 6) {
    case 0:
      w.traits.unified = false;
      w.traits.cells = 60;
      break;
    case 1:
      w.traits.swa_window = 8;
      break;
    case 2:
      w.traits.recurrent = true;
      break;
    case 3:
      w.options.auto_share = false;
      break;
    case 4:
      w.options.max_decoding = 2;
      break;
    default:
      break;
  }
  if (seed % 2 == 0) w.options.batch = 10;
  w.options.session_limit = 60;
  return w;
}

class Chaos {
 public:
  explicit Chaos(std::uint64_t seed) : dice_(seed), world_(world_of(seed)), h_(world_) {
    h_.reading = false;
    h_.model.before_decode = [this](std::span<const BatchToken> batch) {
      h_.pass(0.001 * static_cast<double>(batch.size()));
      if (!injecting_) return DecodeStatus::ok;
      if (dice_.one_in(40)) return DecodeStatus::no_slot;
      if (dice_.one_in(60)) return DecodeStatus::failed;
      return DecodeStatus::ok;
    };
  }

  void go() {
    for (int i = 0; i < steps_per_run() && !testing::Test::HasFatalFailure(); ++i) {
      for (int n = dice_.roll(0, 2); n > 0; --n) act();
      if (dice_.one_in(15)) h_.pass(dice_.roll(0, 8));
      step();
    }
    injecting_ = false;
    everyone_reads_ = true;
    // With nothing in the way everyone ends: pins, graces, full caches or not.
    for (int i = 0; i < 5000 && !all_ended(); ++i) {
      const auto outcome = step();
      if (outcome.worked || all_ended()) continue;
      ASSERT_TRUE(outcome.wake_at) << "requests are open, nothing happens, and nothing will";
      h_.clock.advance(std::max(Duration(1), *outcome.wake_at - h_.clock.now()));
    }
    ASSERT_TRUE(all_ended());
    ASSERT_EQ(h_.cells(), h_.loop.view()->evictable + h_.loop.view()->protected_cells);
    close_everything();
  }

  const std::vector<std::int64_t>& trace() const { return trace_; }

  void compare_with_solo() {
    for (auto& [id, c] : h_.clients) {
      if (c.tokens.empty()) continue;
      const auto alone = solo(world_, c.prompt, static_cast<std::int32_t>(c.tokens.size()));
      ASSERT_EQ(c.tokens, alone) << "request " << id << " was answered with another's context";
      ++seen.answered;
    }
    for (auto& [id, c] : h_.clients) {
      if (c.admitted && c.admitted->n_cached > 0) ++seen.shared;
      if (c.admitted && c.admitted->n_pool_shared > 0) ++seen.attached;
      if (c.finished && c.finished->truncated) ++seen.truncated;
      if (c.failed) ++seen.failed;
    }
  }

  // That a run did something at all.
  struct Seen {
    int answered = 0, shared = 0, attached = 0, truncated = 0, failed = 0, followed = 0, pools = 0;
    Seen& operator+=(const Seen& o) {
      answered += o.answered, shared += o.shared, attached += o.attached, truncated += o.truncated, failed += o.failed;
      followed += o.followed, pools += o.pools;
      return *this;
    }
  };
  Seen seen;

 private:
  kv::Tokens random_prompt() {
    kv::Tokens p;
    if (dice_.one_in(3) && !h_.clients.empty()) {  // goes on where another request ended
      auto it = h_.clients.begin();
      std::advance(it, dice_.roll(0, static_cast<int>(h_.clients.size()) - 1));
      p = it->second.prompt + it->second.tokens;
      if (p.size() > 40) p.resize(40);
    } else {
      p = text(dice_.roll(0, 30), dice_.roll(0, 2));
    }
    return p + text(dice_.roll(1, 8), dice_.roll(0, 6));
  }
  kv::PoolId random_pool() {
    std::vector<kv::PoolId> ids;
    for (const auto& [id, pool] : h_.loop.pools().all()) ids.push_back(id);
    return ids.empty() || dice_.one_in(8) ? dice_.roll(0, 40) : dice_.pick(ids);
  }
  std::string random_session() {
    return dice_.one_in(2) ? "" : std::string(1, static_cast<char>('a' + dice_.roll(0, 4)));
  }
  std::string random_salt() { return dice_.one_in(6) ? "salt" : ""; }

  PoolSource random_source(kv::Tokens tokens) {
    if (dice_.one_in(4)) return {std::string(1, static_cast<char>('a' + dice_.roll(0, 4)))};
    if (dice_.one_in(6)) return {static_cast<kv::SeqId>(dice_.roll(-1, 5))};
    return {std::move(tokens)};
  }
  PoolOptions random_options() {
    PoolOptions o;
    o.pin = dice_.one_in(5);
    o.ephemeral = dice_.one_in(5);
    if (dice_.one_in(4)) o.ttl_s = dice_.roll(0, 10);
    if (dice_.one_in(3)) o.owner = std::string(1, static_cast<char>('a' + dice_.roll(0, 4)));
    o.shared = dice_.one_in(4);
    return o;
  }
  template <class T>
  Completion<T> counted(std::int64_t kind) {
    ++open_completions_;
    return [this, kind](Result<T> r) {
      --open_completions_;
      trace_.push_back(kind);
      trace_.push_back(r ? 1 : static_cast<std::int64_t>(r.error().kind));
    };
  }

  void act() {
    const int what = dice_.roll(0, 29);
    if (what < 14) {
      Harness::Ask ask;
      ask.session = random_session();
      ask.salt = random_salt();
      if (dice_.one_in(3)) ask.pool = random_pool();
      ask.strict = dice_.one_in(6);
      if (dice_.one_in(20)) ask.shared = dice_.roll(-1, 40);
      if (dice_.one_in(8)) ask.slot = dice_.roll(0, 4);
      ask.max_tokens = dice_.one_in(6) ? std::nullopt : std::optional(dice_.roll(0, 12));
      ask.cache_prompt = !dice_.one_in(10);
      if (dice_.one_in(8)) ask.ring = 6;
      h_.submit(random_prompt(), ask);
    } else if (what < 18) {
      if (!h_.clients.empty()) {
        auto it = h_.clients.begin();
        std::advance(it, dice_.roll(std::max(0, static_cast<int>(h_.clients.size()) - 8),
                                    static_cast<int>(h_.clients.size()) - 1));
        h_.cancel(it->second, dice_.one_in(3) ? FinishReason::stop : FinishReason::cancelled);
      }
    } else if (what < 21) {
      pool_requests_.push_back(h_.next_id);
      h_.loop.handle(PoolCreate{h_.next_id++, random_source(random_prompt()), random_options(), random_salt(),
                                counted<PoolCreated>(100)});
    } else if (what < 24) {
      const auto parent = random_pool();
      std::optional<std::int32_t> d;
      const kv::Pool* pool = h_.loop.pools().find(parent);
      if (dice_.one_in(2)) d = dice_.roll(-1, pool != nullptr ? pool->length() : 3);
      pool_requests_.push_back(h_.next_id);
      h_.loop.handle(PoolFork{h_.next_id++, parent, d, random_source(text(dice_.roll(0, 10), dice_.roll(0, 6))),
                              !dice_.one_in(5), random_options(), counted<PoolCreated>(101)});
    } else if (what < 26) {
      h_.loop.handle(
          PoolRetain{random_pool(), static_cast<RetainAction>(dice_.roll(0, 3)), counted<PoolReleased>(102)});
    } else if (what < 27) {
      h_.loop.handle(PoolRelease{random_pool(), dice_.one_in(2), counted<PoolReleased>(103)});
    } else if (what < 28) {
      h_.loop.handle(
          CloseSession{std::string(1, static_cast<char>('a' + dice_.roll(0, 4))), counted<SessionClosed>(104)});
    } else if (!pool_requests_.empty()) {
      h_.loop.handle(Cancel{dice_.pick(pool_requests_)});
    }
  }

  StepOutcome step() {
    const std::size_t outstanding_before = trace_.size();
    const StepOutcome outcome = h_.loop.step();
    const std::string broken = h_.loop.check_integrity();
    if (!broken.empty()) ADD_FAILURE() << broken;
    const auto view = h_.loop.view();
    for (const auto& slot : view->slots) seen.followed += slot.state == SessionState::following ? 1 : 0;
    seen.pools += static_cast<int>(view->pools.size());
    trace_.insert(trace_.end(),
                  {static_cast<std::int64_t>(outstanding_before), static_cast<std::int64_t>(view->cells_used),
                   static_cast<std::int64_t>(h_.cells()), view->seq_ids_used});
    for (auto& [id, c] : h_.clients) {
      // A slow reader reads now and then, if ever.
      if (!everyone_reads_ && id % 7 == 0 && !dice_.one_in(10)) continue;
      if (!everyone_reads_ && id % 29 == 0) continue;
      const bool before = c.ended();
      c.read();
      if (!before && c.ended()) {
        trace_.push_back(static_cast<std::int64_t>(id));
        for (const auto t : c.tokens) trace_.push_back(t);
        trace_.push_back(c.failed ? static_cast<std::int64_t>(c.failed->kind) : -1);
      }
    }
    return outcome;
  }

  bool all_ended() {
    for (auto& [id, c] : h_.clients) {
      if (!c.ended()) return false;
    }
    return open_completions_ == 0;
  }

  void close_everything() {
    for (char s = 'a'; s <= 'e'; ++s) h_.close(std::string(1, s));
    while (h_.loop.pools().size() > 0) {
      ASSERT_TRUE(h_.release(h_.loop.pools().all().begin()->first, true));
    }
    h_.pass(100);  // anonymous caches
    step();
    ASSERT_EQ(h_.cells(), 0U);
    ASSERT_EQ(h_.port.cells_used(), 0U);
    ASSERT_EQ(h_.loop.view()->seq_ids_used, 0);
    ASSERT_EQ(h_.loop.view()->cells_reserved, 0U);
  }

  Dice dice_;
  const World world_;
  Harness h_;
  bool injecting_ = true;
  bool everyone_reads_ = false;
  int open_completions_ = 0;
  std::vector<RequestId> pool_requests_;
  std::vector<std::int64_t> trace_;
};

TEST(LoopRandom, EveryRequestEndsRightWhateverHappens) {
  Chaos::Seen seen;
  for (const auto seed : roost::test::seeds(12)) {
    SCOPED_TRACE("ROOST_TEST_SEED=" + std::to_string(seed));
    Chaos run(seed);
    run.go();
    if (HasFatalFailure() || HasNonfatalFailure()) return;
    run.compare_with_solo();
    if (HasFatalFailure() || HasNonfatalFailure()) return;
    seen += run.seen;
  }
  if (std::getenv("ROOST_TEST_SEED") != nullptr) return;
  EXPECT_GT(seen.answered, 600);
  EXPECT_GT(seen.shared, 200);
  EXPECT_GT(seen.attached, 25);
  EXPECT_GT(seen.truncated, 8);
  EXPECT_GT(seen.failed, 100);
  EXPECT_GT(seen.followed, 15);
  EXPECT_GT(seen.pools, 300);
}

TEST(LoopRandom, TheSameSeedIsTheSameRun) {
  for (const auto seed : roost::test::seeds(2)) {
    Chaos once(seed), again(seed);
    once.go();
    again.go();
    ASSERT_EQ(once.trace(), again.trace()) << "ROOST_TEST_SEED=" << seed;
  }
}

}  // namespace
}  // namespace roost::engine::test
