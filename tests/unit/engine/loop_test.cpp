// The loop's behaviour for plain requests: sharing, sessions, cancel, room, failures.
#include <gtest/gtest.h>

#include "engine/engine_loop.h"
#include "loop_harness.h"

namespace roost::engine::test {
namespace {

TEST(Loop, ARequestIsAdmittedPrefilledAndAnswered) {
  Harness h;
  Client& c = h.submit(text(20), {.max_tokens = 5});
  h.run();
  ASSERT_TRUE(c.admitted);
  EXPECT_EQ(c.admitted->n_prompt, 20);
  EXPECT_EQ(c.admitted->n_cached, 0);
  ASSERT_TRUE(c.finished);
  EXPECT_EQ(c.finished->reason, FinishReason::length);
  EXPECT_FALSE(c.finished->truncated);
  EXPECT_EQ(c.tokens.size(), 5U);
  EXPECT_EQ(c.finished->timings.prompt_n, 20);
  EXPECT_EQ(c.finished->timings.predicted_n, 5);
  EXPECT_EQ(c.tokens, solo({}, text(20), 5));
}

TEST(Loop, TheModelsEndOfGenerationStopsAndIsNotEmitted) {
  World setup;
  setup.model.end_of_generation_in = 5;
  Harness h(setup);
  Client& c = h.submit(text(9), {.max_tokens = 200});
  h.run();
  ASSERT_TRUE(c.finished);
  EXPECT_EQ(c.finished->reason, FinishReason::stop);
  EXPECT_EQ(static_cast<std::size_t>(c.finished->timings.predicted_n), c.tokens.size() + 1);
}

TEST(Loop, NothingToGenerateStillPrefills) {
  Harness h;
  Client& c = h.submit(text(9), {.max_tokens = 0});
  h.run();
  ASSERT_TRUE(c.finished);
  EXPECT_TRUE(c.tokens.empty());
  EXPECT_EQ(c.finished->timings.prompt_n, 9);
}

TEST(Loop, NeighboursDoNotChangeAnAnswer) {
  Harness h;
  std::vector<Client*> all;
  for (int i = 0; i < 12; ++i) all.push_back(&h.submit(text(10 + i * 3, i % 5), {.max_tokens = 6 + i}));
  h.run();
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(all[static_cast<std::size_t>(i)]->tokens, solo({}, text(10 + i * 3, i % 5), 6 + i)) << i;
  }
}

// llama.cpp #26204
TEST(Loop, SimultaneousColdRequestsPrefillTheirCommonPrefixOnce) {
  World setup;
  setup.options.parallel = 16;
  Harness h(setup);
  const auto prefix = text(100);
  std::vector<Client*> all;
  for (int i = 0; i < 16; ++i) all.push_back(&h.submit(prefix + text(5, 10 + i), {.max_tokens = 3}));
  h.run();
  EXPECT_LE(h.prefilled(), 100U + 16U * 5U);
  for (int i = 0; i < 16; ++i)
    EXPECT_EQ(all[static_cast<std::size_t>(i)]->tokens, solo({}, prefix + text(5, 10 + i), 3));
}

TEST(Loop, AFollowerDoesNotWaitLongerThanForTheCommonPart) {
  World setup;
  setup.options.batch = 10;
  Harness h(setup);
  h.submit(text(20) + text(200, 1));
  Client& follower = h.submit(text(20) + text(5, 2));
  for (int i = 0; i < 8; ++i) h.step();
  EXPECT_TRUE(follower.admitted);
  EXPECT_EQ(follower.admitted->n_cached, 20);
}

TEST(Loop, DifferentSaltsShareNothing) {
  Harness h;
  h.submit(text(50), {.salt = "a"});
  h.submit(text(50), {.salt = "b"});
  h.run();
  EXPECT_EQ(h.prefilled(), 100U);
}

TEST(Loop, ACancelledLeaderHandsOverToItsFollowers) {
  World setup;
  setup.options.batch = 16;
  Harness h(setup);
  const auto prefix = text(100);
  Client& leader = h.submit(prefix + text(5, 1));
  Client& second = h.submit(prefix + text(5, 2));
  Client& third = h.submit(prefix + text(5, 3));
  h.step();
  h.step();
  h.cancel(leader);
  h.run();
  EXPECT_EQ(leader.finished->reason, FinishReason::cancelled);
  EXPECT_EQ(second.admitted->n_cached, 32) << "what the leader had computed is not lost";
  EXPECT_EQ(third.admitted->n_cached, 100);
  EXPECT_EQ(second.tokens, solo({}, second.prompt, 4));
  EXPECT_EQ(third.tokens, solo({}, third.prompt, 4));
  EXPECT_EQ(h.prefilled(), 32U + 73U + 5U);
}

TEST(Loop, AFollowerOfAFollowerMovesUpWhenItsLeaderIsCancelled) {
  World setup;
  setup.options.batch = 8;
  Harness h(setup);
  h.submit(text(60) + text(30, 1));
  Client& middle = h.submit(text(60) + text(20, 2) + text(5, 3));
  Client& last = h.submit(text(60) + text(20, 2) + text(5, 4));
  h.step();
  EXPECT_EQ(h.loop.view()->n_prefilling, 3);
  h.cancel(middle);
  h.run();
  EXPECT_EQ(last.admitted->n_cached, 60);
  EXPECT_EQ(last.tokens, solo({}, last.prompt, 4));
}

TEST(Loop, ASessionContinuesItsOwnCache) {
  Harness h;
  Client& first = h.submit(text(20), {.session = "s", .max_tokens = 5});
  h.run();
  const auto history = text(20) + first.tokens;
  Client& second = h.submit(history + text(6, 3), {.session = "s"});
  h.run();
  EXPECT_EQ(second.admitted->n_cached, 24) << "all but the last drawn token, which was never computed";
  EXPECT_EQ(second.admitted->slot, first.admitted->slot);
  EXPECT_EQ(second.tokens, solo({}, second.prompt, 4));
}

TEST(Loop, OneRequestOfASessionRunsAtATime) {
  Harness h;
  Client& first = h.submit(text(20), {.session = "s", .max_tokens = 8});
  Client& second = h.submit(text(20) + text(3, 5), {.session = "s"});
  Client& other = h.submit(text(9, 7), {.max_tokens = 1});
  h.step();
  EXPECT_FALSE(second.admitted);
  EXPECT_TRUE(other.admitted) << "who waits for its own session does not hold up others";
  h.run();
  EXPECT_TRUE(first.finished);
  EXPECT_TRUE(second.finished);
  EXPECT_EQ(second.admitted->n_cached, 20);
}

TEST(Loop, WithoutAnIdTheLongestCachedPrefixDecides) {
  Harness h;
  Client& first = h.submit(text(20));
  h.submit(text(20, 1));
  h.run();
  Client& again = h.submit(text(20) + first.tokens + text(2, 9));
  h.run();
  EXPECT_EQ(again.admitted->slot, first.admitted->slot);
  EXPECT_EQ(again.admitted->n_cached, 23);
}

TEST(Loop, TheLongestMatchWinsOverTheOwnCache) {
  Harness h;
  h.submit(text(10) + text(3, 1), {.session = "mine", .max_tokens = 1});
  h.submit(text(60), {.session = "other", .max_tokens = 1});
  h.run();
  Client& c = h.submit(text(60) + text(4, 2), {.session = "mine"});
  h.run();
  EXPECT_EQ(c.admitted->n_cached, 60);
  EXPECT_EQ(c.tokens, solo({}, c.prompt, 4));
}

TEST(Loop, ANamedSlotIsWaitedFor) {
  Harness h;
  Client& first = h.submit(text(20), {.slot = 2, .max_tokens = 6});
  Client& second = h.submit(text(9, 1), {.slot = 2, .max_tokens = 1});
  h.run();
  EXPECT_EQ(first.admitted->slot, 2);
  EXPECT_EQ(second.admitted->slot, 2);
  Client& bad = h.submit(text(3), {.slot = 99});
  h.run();
  EXPECT_EQ(bad.failed->kind, ErrorKind::invalid_request);
}

TEST(Loop, CachePromptFalseSharesNothingAndKeepsNothing) {
  Harness h;
  h.submit(text(40), {.cache_prompt = false});
  h.run();
  EXPECT_EQ(h.cells(), 0U);
  h.submit(text(40));
  h.submit(text(40), {.cache_prompt = false});
  h.run();
  EXPECT_EQ(h.prefilled(), 120U);
}

TEST(Loop, IdleCachesGoWhenTheirCellsAreNeededLongestIdleFirst) {
  World setup;
  setup.traits.cells = 100;
  Harness h(setup);
  for (int i = 0; i < 3; ++i) {
    h.submit(text(25, i), {.session = "s" + std::to_string(i), .max_tokens = 1});
    h.run();
    h.pass(1);
  }
  h.submit(text(30, 7), {.max_tokens = 10});
  h.run();
  EXPECT_EQ(h.submit(text(25, 2) + text(1, 8), {.session = "s2", .max_tokens = 1}).id, 5U);
  h.run();
  EXPECT_EQ(h.clients[5].admitted->n_cached, 25) << "the youngest idle cache is still there";
  h.submit(text(25, 0) + text(1, 8), {.session = "s0", .max_tokens = 1});
  h.run();
  EXPECT_EQ(h.clients[6].admitted->n_cached, 0) << "the oldest went";
}

TEST(Loop, ARequestWaitsUntilThereIsRoom) {
  World setup;
  setup.traits.cells = 100;
  Harness h(setup);
  Client& a = h.submit(text(60, 1), {.max_tokens = 20});
  Client& b = h.submit(text(60, 2), {.max_tokens = 20});
  for (int i = 0; i < 5; ++i) h.step();
  EXPECT_TRUE(a.admitted);
  EXPECT_FALSE(b.admitted);
  EXPECT_EQ(h.loop.view()->n_queued, 1);
  h.run();
  EXPECT_TRUE(b.finished);
}

TEST(Loop, ALargeRequestIsNotStarvedBySmallOnes) {
  World setup;
  setup.traits.cells = 100;
  Harness h(setup);
  h.submit(text(40, 1), {.max_tokens = 20});
  Client& large = h.submit(text(70, 2), {.max_tokens = 1});
  Client& small = h.submit(text(5, 3), {.max_tokens = 1});
  h.step();
  EXPECT_FALSE(small.admitted) << "first come, first served";
  h.run();
  EXPECT_TRUE(large.finished);
  EXPECT_TRUE(small.finished);
}

TEST(Loop, APromptThatIsTooLongIsRefusedWithBothNumbers) {
  World setup;
  setup.traits.cells = 50;
  Harness h(setup);
  Client& c = h.submit(text(50));
  h.run();
  ASSERT_TRUE(c.failed);
  EXPECT_EQ(c.failed->kind, ErrorKind::exceed_context_size);
  EXPECT_EQ(c.failed->details[0], Field("n_prompt_tokens", 50));
  EXPECT_EQ(c.failed->details[1], Field("n_ctx", 50));
}

TEST(Loop, BadInputNeverReachesTheModel) {
  Harness h;
  EXPECT_EQ((h.submit({}), h.run(), h.clients[1].failed->kind), ErrorKind::prompt_required);
  EXPECT_EQ((h.submit({1, -1}), h.run(), h.clients[2].failed->kind), ErrorKind::invalid_request);
  EXPECT_EQ((h.submit({1, 1000}), h.run(), h.clients[3].failed->kind), ErrorKind::invalid_request);
  EXPECT_TRUE(h.batches.empty());
}

TEST(Loop, TheQueueIsBounded) {
  World setup;
  setup.options.max_queued = 2;
  Harness h(setup);
  h.submit(text(5));
  h.submit(text(5, 1));
  Client& c = h.submit(text(5, 2));
  h.run();
  EXPECT_EQ(c.failed->kind, ErrorKind::server_full);
}

// llama.cpp #23652
TEST(Loop, AGreedySessionEndsAloneWhenTheCellsRunOut) {
  World setup;
  setup.traits.cells = 120;
  setup.options.default_reserve = 8;
  Harness h(setup);
  Client& greedy = h.submit(text(20, 1), {.max_tokens = std::nullopt});
  Client& modest = h.submit(text(20, 2), {.max_tokens = 8});
  Client& late = h.submit(text(20, 3), {.max_tokens = 8});
  h.run();
  ASSERT_TRUE(greedy.finished);
  EXPECT_EQ(greedy.finished->reason, FinishReason::length);
  EXPECT_TRUE(greedy.finished->truncated);
  EXPECT_EQ(modest.tokens.size(), 8U);
  EXPECT_EQ(late.tokens.size(), 8U);
}

TEST(Loop, TheContextEndsASession) {
  World setup;
  setup.options.session_limit = 30;
  Harness h(setup);
  Client& c = h.submit(text(20), {.max_tokens = std::nullopt});
  h.run();
  EXPECT_EQ(c.finished->truncated_reason, "context");
  EXPECT_EQ(c.finished->ctx_used, 30);
  EXPECT_EQ(c.tokens.size(), 11U) << "the last token needs no cell";
}

TEST(Loop, ACancelTakesEffectWithinOneStepWhereverTheRequestIs) {
  World setup;
  setup.options.parallel = 2;
  setup.options.batch = 8;
  Harness h(setup);
  Client& decoding = h.submit(text(4), {.max_tokens = 50});
  Client& prefilling = h.submit(text(90, 1));
  Client& queued = h.submit(text(9, 2));
  for (int i = 0; i < 3; ++i) h.step();
  ASSERT_FALSE(decoding.tokens.empty());
  h.cancel(decoding);
  h.cancel(prefilling);
  h.cancel(queued);
  h.step();
  EXPECT_TRUE(decoding.finished && prefilling.finished && queued.finished);
  EXPECT_EQ(h.cells(), 0U);
  EXPECT_EQ(h.loop.view()->seq_ids_used, 0);
}

TEST(Loop, AStopStringEndsWithStopAndKeepsTheCache) {
  Harness h;
  Client& c = h.submit(text(9), {.session = "s", .max_tokens = 50});
  h.step();
  h.step();
  h.cancel(c, FinishReason::stop);
  h.run();
  EXPECT_EQ(c.finished->reason, FinishReason::stop);
  EXPECT_GT(h.cells(), 0U);
}

TEST(Loop, AFullRingPausesOnlyItsSession) {
  Harness h;
  Client& slow = h.submit(text(9), {.max_tokens = 20, .ring = 8});
  Client& fast = h.submit(text(9, 1), {.max_tokens = 20});
  h.reading = false;
  while (h.step().worked) fast.read();
  EXPECT_TRUE(fast.finished);
  EXPECT_FALSE(slow.ended());
  h.reading = true;
  slow.read();
  h.run();
  EXPECT_EQ(slow.tokens, solo({}, slow.prompt, 20));
}

TEST(Loop, AClientThatDoesNotReadIsCancelledAfterAWhile) {
  Harness h;
  Client& slow = h.submit(text(9), {.max_tokens = 20, .ring = 8});
  h.reading = false;
  h.run();
  const auto rest = h.step();
  ASSERT_TRUE(rest.wake_at) << "the loop must wake by itself";
  h.pass(30);
  h.step();
  h.reading = true;
  h.step();
  EXPECT_EQ(slow.finished->reason, FinishReason::cancelled);
  EXPECT_EQ(h.cells(), 0U);
}

TEST(Loop, NoSlotShrinksThePrefillAndLosesNothing) {
  Harness h;
  int refusals = 2;
  h.model.before_decode = [&](std::span<const BatchToken> batch) {
    return batch.size() > 8 && refusals-- > 0 ? DecodeStatus::no_slot : DecodeStatus::ok;
  };
  Client& c = h.submit(text(40));
  h.run();
  EXPECT_EQ(h.batches.front().size(), 10U) << "40, 20, 10";
  EXPECT_EQ(c.tokens, solo({}, c.prompt, 4));
}

TEST(Loop, WhenThereIsNeverASlotTheYoungestEndsAndTheOthersGoOn) {
  Harness h;
  Client& old = h.submit(text(9), {.max_tokens = 10});
  Client& young = h.submit(text(9, 1), {.max_tokens = 10});
  h.model.before_decode = [](std::span<const BatchToken> batch) {
    return batch.size() > 1 && !batch[0].logits ? DecodeStatus::ok
           : batch.size() > 1                   ? DecodeStatus::no_slot
                                                : DecodeStatus::ok;
  };
  h.run();
  EXPECT_EQ(old.tokens, solo({}, old.prompt, 10));
  EXPECT_EQ(young.finished->truncated_reason, "kv_exhausted");
}

TEST(Loop, AFailedDecodeEndsTheSessionsOfItsBatchAndTheNextStepGoesOn) {
  World setup;
  setup.options.batch = 16;
  Harness h(setup);
  int step = 0;
  h.model.before_decode = [&](std::span<const BatchToken>) {
    return ++step == 2 ? DecodeStatus::failed : DecodeStatus::ok;
  };
  Client& leader = h.submit(text(60) + text(5, 1));
  Client& follower = h.submit(text(60) + text(5, 2));
  h.run();
  EXPECT_EQ(leader.failed->kind, ErrorKind::decode_failed);
  EXPECT_EQ(follower.admitted->n_cached, 16) << "what was computed before the failure is good";
  EXPECT_EQ(follower.tokens, solo({}, follower.prompt, 4));
  EXPECT_TRUE(h.loop.view()->healthy);
}

TEST(Loop, RepeatedFailureShowsInTheView) {
  Harness h;
  h.model.before_decode = [&](std::span<const BatchToken>) { return DecodeStatus::failed; };
  for (int i = 0; i < 3; ++i) {
    h.submit(text(9, i));
    h.run();
  }
  EXPECT_FALSE(h.loop.view()->healthy);
  h.model.before_decode = {};
  h.submit(text(9, 7));
  h.run();
  EXPECT_TRUE(h.loop.view()->healthy);
}

TEST(Loop, MoreSessionsMayBeResidentThanDecodeAtOnce) {
  World setup;
  setup.options.max_decoding = 2;
  Harness h(setup);
  for (int i = 0; i < 4; ++i) h.submit(text(5, i), {.max_tokens = 12});
  h.run();
  for (const auto& batch : h.batches) {
    std::map<kv::SeqId, int> tokens;
    int decoding = 0;
    for (const auto& t : batch) ++tokens[t.seq];
    for (const auto& [seq, n] : tokens) decoding += n == 1 ? 1 : 0;
    EXPECT_LE(decoding, 2);
  }
  for (auto& [id, c] : h.clients) EXPECT_EQ(c.tokens, solo({}, c.prompt, 12));
}

TEST(Loop, AnIdleCacheAndItsRecordEndWithTheSessionTtl) {
  Harness h;
  h.submit(text(9), {.session = "s"});
  h.run();
  h.pass(599);
  h.step();
  EXPECT_GT(h.cells(), 0U);
  h.pass(1);
  h.step();
  EXPECT_EQ(h.cells(), 0U);
  EXPECT_FALSE(h.close("s").found);
}

TEST(Loop, ClosingASessionFreesWhatItHolds) {
  Harness h;
  Client& c = h.submit(text(9), {.session = "s", .max_tokens = 100});
  h.step();
  EXPECT_TRUE(h.close("s").found);
  EXPECT_EQ(c.finished->reason, FinishReason::cancelled);
  EXPECT_EQ(h.cells(), 0U);
  EXPECT_FALSE(h.close("s").found) << "closing is idempotent";
  EXPECT_FALSE(h.close("").found);
}

TEST(Loop, GaugesAreZeroWhenNobodyDecodes) {
  Harness h;
  h.model.before_decode = [&](std::span<const BatchToken>) {
    h.pass(0.1);
    return DecodeStatus::ok;
  };
  h.submit(text(9), {.max_tokens = 20});
  for (int i = 0; i < 15; ++i) h.step();
  EXPECT_NEAR(h.loop.view()->aggregate_tps, 10.0, 0.5);
  EXPECT_NEAR(h.loop.view()->mean_active_tps, 10.0, 0.5);
  EXPECT_NEAR(h.loop.view()->slots[0].tps_ewma, 10.0, 0.5);
  h.run();
  EXPECT_EQ(h.loop.view()->aggregate_tps, 0);
  EXPECT_EQ(h.loop.view()->mean_active_tps, 0);
}

TEST(Loop, ShuttingDownAnswersEveryone) {
  Harness h;
  Client& running = h.submit(text(90));
  h.step();
  Client& queued = h.submit(text(9, 1), {.session = "q"});
  h.loop.shut_down();
  running.read();
  queued.read();
  EXPECT_EQ(running.failed->kind, ErrorKind::shutting_down);
  EXPECT_EQ(queued.failed->kind, ErrorKind::shutting_down);
  EXPECT_EQ(h.cells(), 0U);
}

// The gate "unused = inert" at the level of the loop.
TEST(Loop, PoolsThatNobodyUsesChangeNoBatch) {
  const auto batches = [](std::int32_t max_pools) {
    World setup;
    setup.options.auto_share = false;
    setup.options.max_pools = max_pools;
    setup.traits.n_seq = setup.options.parallel + max_pools;
    Harness h(setup);
    for (int i = 0; i < 10; ++i) {
      h.submit(text(30) + text(5 + i, i % 3), {.session = i % 2 == 0 ? "s" : "", .max_tokens = 3 + i});
      if (i % 3 == 0) h.run();
    }
    h.run();
    std::vector<std::array<int, 4>> all;
    for (const auto& batch : h.batches) {
      for (const auto& t : batch) all.push_back({t.token, t.pos, t.seq, t.logits ? 1 : 0});
      all.push_back({-1, -1, -1, -1});
    }
    return all;
  };
  EXPECT_EQ(batches(0), batches(16));
}

}  // namespace
}  // namespace roost::engine::test
