// Pools in the loop: made, forked, attached to, kept and let go of.
#include <gtest/gtest.h>

#include "loop_harness.h"

namespace roost::engine::test {
namespace {

TEST(Pools, APoolIsComputedOnceAndItsSessionsComputeTheirSuffixes) {
  Harness h;
  const auto made = h.create(text(50));
  ASSERT_TRUE(made);
  EXPECT_EQ(made->pool_id, 0) << "zero is a pool id like any other";
  EXPECT_EQ(made->prefix_len, 50);
  EXPECT_EQ(made->own_len, 50);
  std::vector<Client*> all;
  for (int i = 0; i < 4; ++i) all.push_back(&h.submit(text(50) + text(6, 10 + i), {.pool = made->pool_id}));
  h.run();
  EXPECT_EQ(h.prefilled(), 50U + 4U * 6U);
  for (const Client* c : all) {
    EXPECT_EQ(c->admitted->pool_id, 0);
    EXPECT_EQ(c->admitted->n_pool_shared, 50);
    EXPECT_EQ(c->admitted->n_cached, 50);
    EXPECT_FALSE(c->admitted->divergence);
    EXPECT_EQ(c->tokens, solo({}, c->prompt, 4));
  }
}

TEST(Pools, AttachingNeedsNoAutoShare) {
  World world;
  world.options.auto_share = false;
  Harness h(world);
  const auto id = h.pool(text(50));
  Client& c = h.submit(text(50) + text(6, 1), {.pool = id});
  h.run();
  EXPECT_EQ(c.admitted->n_pool_shared, 50);
}

TEST(Pools, AtLeastOnePromptTokenIsComputed) {
  Harness h;
  const auto id = h.pool(text(50));
  Client& c = h.submit(text(50), {.pool = id});
  h.run();
  EXPECT_EQ(c.admitted->n_pool_shared, 49);
  EXPECT_FALSE(c.admitted->divergence) << "the whole pool matched";
  EXPECT_EQ(c.tokens, solo({}, c.prompt, 4));
}

TEST(Pools, TheFirstDivergenceIsNamed) {
  Harness h;
  const auto id = h.pool(text(50));
  Client& c = h.submit(text(30) + kv::Tokens{777, 778}, {.pool = id});
  Client& shorter = h.submit(text(20), {.pool = id});
  h.run();
  EXPECT_EQ(c.admitted->n_pool_shared, 30);
  EXPECT_EQ(c.admitted->divergence->index, 30);
  EXPECT_EQ(c.admitted->divergence->pool_token, text(50)[30]);
  EXPECT_EQ(c.admitted->divergence->prompt_token, 777);
  EXPECT_EQ(shorter.admitted->divergence->index, 20);
  EXPECT_EQ(shorter.admitted->divergence->prompt_token, -1);
}

TEST(Pools, AnUnknownPoolIsServedUnlessStrict) {
  Harness h;
  Client& served = h.submit(text(9), {.pool = 5});
  Client& strict = h.submit(text(9), {.pool = 5, .strict = true});
  h.run();
  EXPECT_TRUE(served.admitted->pool_unknown);
  EXPECT_EQ(served.admitted->pool_id, kv::kNoPool);
  EXPECT_TRUE(served.finished);
  EXPECT_EQ(strict.failed->kind, ErrorKind::unknown_pool);
}

TEST(Pools, AClaimAboutTheSharedLengthIsChecked) {
  Harness h;
  const auto id = h.pool(text(50));
  Client& good = h.submit(text(50) + text(3, 1), {.pool = id, .shared = 50});
  Client& bad = h.submit(text(30) + text(30, 1), {.pool = id, .shared = 40});
  h.run();
  EXPECT_TRUE(good.finished);
  ASSERT_TRUE(bad.failed);
  EXPECT_EQ(bad.failed->kind, ErrorKind::invalid_request);
  EXPECT_EQ(bad.failed->details[0], Field("shared_prefix_n_tokens", 40));
  EXPECT_EQ(bad.failed->details[1], Field("common_n_tokens", 30));
}

TEST(Pools, AnotherSaltDoesNotShareWithAPool) {
  Harness h;
  const auto id = h.pool(text(50));
  Client& c = h.submit(text(50) + text(3, 1), {.salt = "tenant", .pool = id});
  h.run();
  EXPECT_EQ(c.admitted->n_cached, 0);
  EXPECT_FALSE(c.admitted->no_share_reason.empty());
}

TEST(Pools, APoolSharesWhatIsResidentAlready) {
  Harness h;
  h.submit(text(40) + text(5, 1), {.session = "s"});
  h.run();
  const auto before = h.prefilled();
  const auto id = h.pool(text(40) + text(10, 2));
  EXPECT_EQ(h.prefilled() - before, 10U);
  Client& c = h.submit(text(40) + text(10, 2) + text(2, 3), {.pool = id});
  h.run();
  EXPECT_EQ(c.tokens, solo({}, c.prompt, 4));
}

TEST(Pools, ARequestFollowsAPoolInTheMaking) {
  World world;
  world.options.batch = 16;
  Harness h(world);
  std::optional<Result<PoolCreated>> made;
  h.loop.handle(PoolCreate{900, PoolSource{text(80)}, {}, "", [&](Result<PoolCreated> r) { made = std::move(r); }});
  Client& c = h.submit(text(80) + text(5, 1));
  h.run();
  ASSERT_TRUE(made && *made);
  EXPECT_EQ(h.prefilled(), 85U);
  EXPECT_EQ(c.tokens, solo({}, c.prompt, 4));
}

TEST(Pools, ExtendAndBranchInheritWithoutACell) {
  Harness h;
  const auto root = h.pool(text(50));
  const auto extended = h.fork(root, {text(50) + text(10, 1)});
  ASSERT_TRUE(extended);
  EXPECT_EQ(extended->branch_pos, 50);
  EXPECT_EQ(extended->own_len, 10);
  const auto branched = h.fork(root, {text(7, 2)}, 20, true);
  ASSERT_TRUE(branched);
  EXPECT_EQ(branched->branch_pos, 20);
  EXPECT_EQ(branched->prefix_len, 27);
  EXPECT_EQ(h.cells(), 50U + 10U + 7U);
  const auto deeper = h.fork(extended->pool_id, {text(4, 3)}, std::nullopt, true);
  EXPECT_EQ(h.loop.view()->tree_depth, 3);
  Client& c = h.submit(text(50) + text(10, 1) + text(4, 3) + text(3, 4), {.pool = deeper->pool_id});
  Client& d = h.submit(text(20) + text(7, 2) + text(3, 4), {.pool = branched->pool_id});
  h.run();
  EXPECT_EQ(c.admitted->n_pool_shared, 64);
  EXPECT_EQ(d.admitted->n_pool_shared, 27);
  EXPECT_EQ(c.tokens, solo({}, c.prompt, 4));
  EXPECT_EQ(d.tokens, solo({}, d.prompt, 4));
}

TEST(Pools, AForkThatDiffersFromItsParentNamesTheIndex) {
  Harness h;
  const auto root = h.pool(text(50));
  const auto fork = h.fork(root, {text(30) + text(30, 1)});
  ASSERT_FALSE(fork);
  EXPECT_EQ(fork.error().kind, ErrorKind::prefix_mismatch);
  EXPECT_EQ(fork.error().details[0], Field("index", 30));
  EXPECT_EQ(h.fork(9, {text(5)}).error().kind, ErrorKind::unknown_pool);
  EXPECT_EQ(h.fork(root, {text(60)}, 51).error().kind, ErrorKind::invalid_request);
  EXPECT_EQ(h.fork(root, {text(50)}).error().kind, ErrorKind::invalid_request) << "adds nothing";
}

TEST(Pools, ASessionsCacheBecomesAPoolAtOnce) {
  Harness h;
  Client& main = h.submit(text(40), {.session = "main", .max_tokens = 5});
  h.run();
  const auto before = h.prefilled();
  const auto made = *h.create_async({std::string("main")}, {.owner = "main"});
  ASSERT_TRUE(made);
  EXPECT_EQ(h.prefilled(), before) << "nothing is computed again";
  EXPECT_EQ(made->prefix_len, 44);
  EXPECT_EQ(h.cells(), 44U);
  const auto view = h.loop.view();
  EXPECT_EQ(view->pools[0].own_kv_bytes, 44U) << "the cells are the pool's now";
  EXPECT_EQ(view->pools[0].sessions.size(), 1U) << "the donor is attached";
  EXPECT_EQ(view->pools[0].sessions[0].n_suffix, 0);
  const auto stream = text(40) + kv::Tokens(main.tokens.begin(), main.tokens.begin() + 4);
  Client& sub = h.submit(stream + text(4, 2), {.pool = made->pool_id});
  h.run();
  EXPECT_EQ(sub.admitted->n_pool_shared, 44);
  EXPECT_EQ(sub.tokens, solo({}, sub.prompt, 4));
  EXPECT_EQ(h.create_async({std::string("nobody")})->error().kind, ErrorKind::session_not_found);
  EXPECT_EQ(h.create_async({kv::SeqId{3}})->error().kind, ErrorKind::session_not_found);
  EXPECT_TRUE(*h.create_async({kv::SeqId{0}}));
}

TEST(Pools, AForkFromASessionTakesTheParentsCells) {
  World world;
  world.options.auto_share = false;
  Harness h(world);
  const auto root = h.pool(text(30));
  h.submit(text(30) + text(10, 1), {.session = "s", .max_tokens = 1});  // does not name the pool: computes its own copy
  h.run();
  EXPECT_EQ(h.cells(), 70U);
  const auto child = h.fork(root, {std::string("s")});
  ASSERT_TRUE(child);
  EXPECT_EQ(child->branch_pos, 30);
  EXPECT_EQ(child->own_len, 10);
  EXPECT_EQ(h.cells(), 70U);
  h.close("s");
  EXPECT_EQ(h.cells(), 40U);
  Client& c = h.submit(text(30) + text(10, 1) + text(2, 2), {.pool = child->pool_id});
  h.run();
  EXPECT_EQ(c.tokens, solo({}, c.prompt, 4));
}

TEST(Pools, ADonorThatEndsHandsItsCellsOver) {
  Harness h;
  h.submit(text(40), {.session = "donor"});
  h.run();
  Client& other = h.submit(text(40) + text(5, 1), {.session = "other", .max_tokens = 1});
  h.run();
  EXPECT_EQ(other.admitted->n_cached, 40);
  h.close("donor");
  const auto view = h.loop.view();
  EXPECT_EQ(view->cells_used, 45U);
  EXPECT_EQ(view->slots[static_cast<std::size_t>(other.admitted->slot)].marginal_kv_bytes, 45U);
}

TEST(Pools, ReleasingAPoolUnderSessionsLeavesThemTheirCells) {
  Harness h;
  const auto id = h.pool(text(50));
  Client& c = h.submit(text(50) + text(5, 1), {.session = "a", .pool = id, .max_tokens = 40});
  for (int i = 0; i < 4; ++i) h.step();
  const auto released = h.release(id);
  ASSERT_TRUE(released);
  EXPECT_EQ(released->cells_freed, 0U);
  const auto view = h.loop.view();
  EXPECT_TRUE(view->pools.empty());
  EXPECT_EQ(view->slots[static_cast<std::size_t>(c.admitted->slot)].inherited_cells, 50U);
  h.run();
  EXPECT_EQ(c.tokens, solo({}, c.prompt, 40));
  EXPECT_FALSE(h.release(id)->found) << "releasing is idempotent";
}

TEST(Pools, APoolWithChildrenIsReleasedOnlyRecursively) {
  Harness h;
  const auto root = h.pool(text(50));
  EXPECT_TRUE(h.fork(root, {text(5, 1)}, std::nullopt, true));
  EXPECT_EQ(h.release(root).error().kind, ErrorKind::pool_has_children);
  const auto released = h.release(root, true);
  EXPECT_EQ(released->pools_released, 2);
  EXPECT_EQ(released->cells_freed, 55U);
  EXPECT_EQ(h.cells(), 0U);
  EXPECT_EQ(h.loop.view()->seq_ids_used, 0);
}

TEST(Pools, ReleasingAParentRecursivelyEndsAForkInTheMaking) {
  World world;
  world.options.batch = 8;
  Harness h(world);
  const auto root = h.pool(text(20));
  std::optional<Result<PoolCreated>> fork;
  h.loop.handle(PoolFork{901, root, {}, {text(60, 1)}, true, {}, [&](Result<PoolCreated> r) { fork = std::move(r); }});
  h.step();
  EXPECT_EQ(h.release(root).error().kind, ErrorKind::pool_has_children);
  EXPECT_TRUE(h.release(root, true));
  ASSERT_TRUE(fork);
  EXPECT_FALSE(*fork);
  EXPECT_EQ(h.cells(), 0U);
}

TEST(Pools, SharedFindsOrCreates) {
  World world;
  world.options.batch = 8;
  Harness h(world);
  std::vector<Result<PoolCreated>> made;
  for (RequestId id = 900; id < 903; ++id) {
    h.loop.handle(PoolCreate{
        id, PoolSource{text(40)}, {.shared = true}, "", [&](Result<PoolCreated> r) { made.push_back(std::move(r)); }});
  }
  h.run();
  ASSERT_EQ(made.size(), 3U);
  for (const auto& r : made) EXPECT_EQ(r->pool_id, 0);
  EXPECT_TRUE(h.create(text(40), {.shared = true})->reused);
  EXPECT_FALSE(h.create(text(41), {.shared = true})->reused);
}

TEST(Pools, AnOwnersCloseReleasesItsPools) {
  Harness h;
  h.submit(text(9), {.session = "me"});
  h.run();
  const auto mine = h.pool(text(30, 1), {.owner = "me"});
  const auto base = h.pool(text(30, 2), {.pin = true, .owner = "me"});
  EXPECT_TRUE(h.fork(base, {text(5, 3)}, std::nullopt, true, {.owner = "other"}));
  const auto closed = h.close("me");
  EXPECT_EQ(closed.pools_released, 1);
  EXPECT_EQ(h.loop.pools().find(mine), nullptr);
  ASSERT_NE(h.loop.pools().find(base), nullptr) << "another's pool stands on it";
  EXPECT_FALSE(h.loop.pools().find(base)->keep.pinned);
}

TEST(Pools, ExpectLenIsChecked) {
  Harness h;
  EXPECT_EQ(h.create(text(40), {.expect_len = 41}).error().kind, ErrorKind::prefix_mismatch);
  EXPECT_TRUE(h.create(text(40), {.expect_len = 40}));
}

TEST(Pools, BadSourcesAreRefused) {
  Harness h;
  EXPECT_EQ(h.create({}).error().kind, ErrorKind::invalid_request);
  EXPECT_EQ(h.create({1, -1}).error().kind, ErrorKind::invalid_request);
  EXPECT_EQ(h.create({1, 5000}).error().kind, ErrorKind::invalid_request);
  EXPECT_EQ(h.create(text(600)).error().kind, ErrorKind::never_fits);
}

TEST(Pools, PoolsOffSaysSo) {
  World world;
  world.options.max_pools = 0;
  Harness h(world);
  EXPECT_EQ(h.create(text(5)).error().kind, ErrorKind::pools_off);
  EXPECT_EQ(h.fork(0, {text(5)}).error().kind, ErrorKind::pools_off);
  EXPECT_EQ(h.release(0).error().kind, ErrorKind::pools_off);
  EXPECT_EQ(h.retain(0, RetainAction::pin).error().kind, ErrorKind::pools_off);
}

TEST(Pools, AllSeatsTakenIsARefusalUntilAGraceEnds) {
  World world;
  world.options.max_pools = 2;
  Harness h(world);
  h.pool(text(5, 1));
  h.pool(text(5, 2));
  EXPECT_EQ(h.create(text(5, 3)).error().kind, ErrorKind::pool_seats_exhausted);
  h.pass(60);
  EXPECT_TRUE(h.create(text(5, 3)));
}

TEST(Pools, ASeatIsTakenFromAPoolThatOnlyIdleSessionsUse) {
  World world;
  world.options.max_pools = 1;
  Harness h(world);
  const auto id = h.pool(text(20));
  h.submit(text(22), {.session = "s", .pool = id});
  h.run();
  EXPECT_EQ(h.create(text(5, 3)).error().kind, ErrorKind::pool_seats_exhausted);
  h.pass(60);
  EXPECT_TRUE(h.create(text(5, 3)));
}

// vLLM #8333, #27097
TEST(Pools, APinSurvivesAFloodAndTheCapRefusesTheNextPin) {
  World world;
  world.traits.cells = 200;
  Harness h(world);
  const auto pinned = h.pool(text(100), {.pin = true});
  EXPECT_EQ(h.create(text(70, 1), {.pin = true}).error().kind, ErrorKind::kv_exhausted);
  h.pass(1000);
  for (int i = 0; i < 30; ++i) h.submit(text(60, 2 + i), {.session = "s" + std::to_string(i), .max_tokens = 8});
  h.run();
  for (auto& [id, c] : h.clients) EXPECT_TRUE(c.finished) << id;
  Client& c = h.submit(text(100) + text(2, 1), {.pool = pinned});
  h.run();
  EXPECT_EQ(c.admitted->n_pool_shared, 100);
  EXPECT_TRUE(h.retain(pinned, RetainAction::unpin));
  h.pass(1000);
  Client& large = h.submit(text(150, 77), {.max_tokens = 1});
  h.run();
  EXPECT_TRUE(large.finished) << "unpinned, it goes when its cells are needed";
  EXPECT_EQ(h.loop.pools().size(), 0U);
}

TEST(Pools, WhatPinsWillNeverLeaveRoomForIsRefusedNotQueued) {
  World world;
  world.traits.cells = 200;
  Harness h(world);
  h.pool(text(100), {.pin = true});
  Client& c = h.submit(text(150, 1), {.max_tokens = 1});
  h.run();
  EXPECT_EQ(c.failed->kind, ErrorKind::kv_exhausted);
  EXPECT_EQ(c.failed->status(), 503);
}

TEST(Pools, ARequestWaitsForAGraceToEnd) {
  World world;
  world.traits.cells = 200;
  Harness h(world);
  h.pool(text(100));
  Client& c = h.submit(text(150, 1), {.max_tokens = 1});
  h.run();
  EXPECT_FALSE(c.ended());
  const auto wake = h.step().wake_at;
  ASSERT_TRUE(wake);
  h.clock.advance(*wake - h.clock.now());
  h.run();
  EXPECT_TRUE(c.finished);
}

TEST(Pools, LeavesGoFirstAndNeverAParentOfALivingChild) {
  World world;
  world.traits.cells = 100;
  Harness h(world);
  const auto root = h.pool(text(30), {.ttl_s = 0});
  const auto leaf = h.fork(root, {text(10, 1)}, std::nullopt, true, {.ttl_s = 0})->pool_id;
  h.submit(text(60, 5), {.max_tokens = 8});
  h.run();
  EXPECT_EQ(h.loop.pools().find(leaf), nullptr);
  EXPECT_NE(h.loop.pools().find(root), nullptr);
  h.submit(text(85, 6), {.max_tokens = 8});
  h.run();
  EXPECT_EQ(h.loop.pools().find(root), nullptr);
}

TEST(Pools, EvictAndFlushDropOnlyWhatIsUnused) {
  Harness h;
  const auto root = h.pool(text(30));
  const auto used = h.fork(root, {text(5, 1)}, std::nullopt, true)->pool_id;
  EXPECT_TRUE(h.fork(root, {text(5, 2)}, std::nullopt, true));
  h.submit(text(30) + text(5, 1) + text(2, 3), {.session = "s", .pool = used});
  h.run();
  EXPECT_EQ(h.retain(used, RetainAction::evict)->pools_released, 0);
  EXPECT_EQ(h.retain(root, RetainAction::evict)->pools_released, 0);
  const auto flushed = h.retain(root, RetainAction::flush);
  EXPECT_EQ(flushed->pools_released, 1);
  EXPECT_EQ(flushed->cells_freed, 5U);
  h.close("s");
  EXPECT_EQ(h.retain(root, RetainAction::flush)->pools_released, 1);
  EXPECT_EQ(h.retain(root, RetainAction::evict)->pools_released, 1);
  EXPECT_EQ(h.retain(root, RetainAction::pin).error().kind, ErrorKind::unknown_pool);
  EXPECT_EQ(h.cells(), 0U);
}

TEST(Pools, AnEphemeralPoolGoesWithItsLastUser) {
  Harness h;
  const auto id = h.pool(text(30), {.ephemeral = true});
  h.step();
  EXPECT_NE(h.loop.pools().find(id), nullptr);
  h.submit(text(30) + text(2, 1), {.session = "s", .pool = id});
  h.run();
  EXPECT_NE(h.loop.pools().find(id), nullptr) << "its session is still attached";
  h.close("s");
  EXPECT_EQ(h.loop.pools().find(id), nullptr);
  EXPECT_EQ(h.cells(), 0U);
}

TEST(Pools, AConversationMovesOntoThePoolThatCoversIt) {
  World world;
  world.options.auto_share = false;
  Harness h(world);
  h.submit(text(30), {.session = "s", .max_tokens = 1});
  h.run();
  const auto id = h.pool(text(30) + text(20, 1));
  Client& c = h.submit(text(30) + text(20, 1) + text(3, 2), {.session = "s", .pool = id, .max_tokens = 1});
  h.run();
  EXPECT_EQ(c.admitted->n_pool_shared, 50);
  EXPECT_EQ(h.cells(), 53U) << "the own copy of the first 30 tokens is gone";
}

TEST(Pools, AnOwnCacheLongerThanThePoolKeepsItsTailAndSharesThePoolsCells) {
  World world;
  world.options.auto_share = false;
  Harness h(world);
  h.submit(text(30) + text(20, 1), {.session = "s", .max_tokens = 1});
  h.run();
  const auto before = h.prefilled();
  const auto id = h.pool(text(30));
  EXPECT_EQ(h.prefilled(), before) << "a pool takes what is resident";
  h.close("s");
  h.submit(text(30) + text(20, 1), {.session = "t", .max_tokens = 1});  // does not name it: an own copy
  h.run();
  EXPECT_EQ(h.cells(), 80U);
  Client& c = h.submit(text(30) + text(20, 1) + text(3, 2), {.session = "t", .pool = id});
  h.run();
  EXPECT_EQ(c.admitted->n_cached, 50);
  EXPECT_EQ(c.admitted->n_pool_shared, 30);
  EXPECT_EQ(h.cells(), 56U);
  EXPECT_EQ(c.tokens, solo({}, c.prompt, 4));
}

TEST(Pools, ALaterRequestThatNamesNoPoolStaysAttached) {
  Harness h;
  const auto id = h.pool(text(30));
  Client& first = h.submit(text(30) + text(5, 1), {.session = "s", .pool = id});
  h.run();
  Client& second = h.submit(first.prompt + first.tokens + text(5, 2), {.session = "s"});
  h.run();
  EXPECT_EQ(second.admitted->pool_id, id);
  EXPECT_EQ(second.admitted->n_pool_shared, 30);
  Client& rewritten = h.submit(text(20) + text(9, 3), {.session = "s"});
  h.run();
  EXPECT_EQ(rewritten.admitted->n_pool_shared, 20) << "clamped to what is still shared";
}

// The cells of the idle cache that it would share from are what stands in its way: it does without.
TEST(Pools, ARequestThatFitsOnlyAloneDoesNotWaitForItsOwnSource) {
  World world;
  world.traits.cells = 100;
  Harness h(world);
  const auto id = h.pool(text(10) + text(40, 1), {.ttl_s = 0});
  h.submit(text(10) + text(40, 1) + text(20, 2), {.session = "a", .pool = id, .max_tokens = 1});
  h.run();
  Client& c = h.submit(text(10) + text(70, 3), {.session = "b", .pool = id, .max_tokens = 5});
  h.run();
  EXPECT_TRUE(c.finished);
  EXPECT_EQ(c.tokens, solo({}, c.prompt, 5));
}

TEST(Pools, AFailedDecodeFailsThePoolAndLeavesNothing) {
  Harness h;
  h.model.before_decode = [](std::span<const BatchToken>) { return DecodeStatus::failed; };
  EXPECT_EQ(h.create(text(30)).error().kind, ErrorKind::decode_failed);
  EXPECT_EQ(h.cells(), 0U);
  EXPECT_EQ(h.loop.view()->seq_ids_used, 0);
}

TEST(Pools, ACancelledCreationLeavesNothing) {
  World world;
  world.options.batch = 8;
  Harness h(world);
  std::optional<Result<PoolCreated>> made;
  h.loop.handle(PoolCreate{900, PoolSource{text(80)}, {}, "", [&](Result<PoolCreated> r) { made = std::move(r); }});
  h.step();
  h.loop.handle(Cancel{900});
  h.step();
  EXPECT_EQ(made->error().kind, ErrorKind::cancelled);
  EXPECT_EQ(h.cells(), 0U);
}

TEST(Pools, OwnedCellsOfTheTreeAreTheCellsInUse) {
  Harness h;
  const auto root = h.pool(text(50));
  const auto child = h.fork(root, {text(10, 1)}, std::nullopt, true)->pool_id;
  h.submit(text(50) + text(10, 1) + text(5, 2), {.session = "a", .pool = child});
  h.submit(text(50) + text(5, 3), {.session = "b", .pool = root});
  h.run();
  const auto view = h.loop.view();
  EXPECT_EQ(view->cells_used, 50U + 10U + 8U + 8U);
  EXPECT_EQ(view->pools[0].own_kv_bytes, 50U);
  EXPECT_EQ(view->pools[1].own_kv_bytes, 10U);
  EXPECT_EQ(view->pools[0].subtree_kv_bytes, view->cells_used);
  EXPECT_EQ(view->pools[1].subtree_kv_bytes, 18U);
  EXPECT_EQ(view->evictable + view->protected_cells, view->cells_used);
  EXPECT_EQ(view->cells_used + view->cells_free, view->cells_total);
}

TEST(Pools, SplitCachesServePoolsByCopy) {
  World world;
  world.traits = {.cells = 100, .n_seq = 12, .unified = false, .bytes_per_cell = 1};
  Harness h(world);
  const auto id = h.pool(text(50));
  Client& c = h.submit(text(30) + text(10, 1), {.pool = id});
  Client& d = h.submit(text(50) + text(10, 1), {.pool = id});
  h.run();
  EXPECT_EQ(c.admitted->n_pool_shared, 30);
  EXPECT_EQ(d.admitted->n_pool_shared, 50);
  EXPECT_EQ(c.tokens, solo({}, c.prompt, 4));
  EXPECT_EQ(d.tokens, solo({}, d.prompt, 4));
}

TEST(Pools, ARecurrentModelSharesOnlyTheWholePool) {
  World world;
  world.traits.recurrent = true;
  Harness h(world);
  const auto id = h.pool(text(50));
  Client& whole = h.submit(text(50) + text(5, 1), {.pool = id});
  Client& part = h.submit(text(30) + text(5, 1), {.pool = id});
  h.run();
  EXPECT_EQ(whole.admitted->n_cached, 50);
  EXPECT_EQ(part.admitted->n_cached, 0);
  EXPECT_FALSE(part.admitted->no_share_reason.empty());
  EXPECT_EQ(whole.tokens, solo(world, whole.prompt, 4));
  EXPECT_EQ(part.tokens, solo(world, part.prompt, 4));
  EXPECT_EQ(h.fork(id, {text(5, 2)}, 20, true).error().kind, ErrorKind::state_not_shareable);
  EXPECT_TRUE(h.fork(id, {text(5, 2)}, 50, true));
}

// The recipe of the design page: a long session, a pool, the session closes, the next one grows over the hole.
TEST(Pools, ASlidingWindowPoolLeftAloneKeepsItsEarlyCells) {
  for (const bool anchor : {true, false}) {
    World world;
    world.traits = {.cells = 256, .n_seq = 13, .swa_window = 32, .bytes_per_cell = 1};
    world.use_anchor = anchor;
    Harness h(world);
    h.submit(text(80, 1), {.session = "first", .max_tokens = 1});
    h.run();
    const auto id = h.pool(text(80, 2));
    h.close("first");
    h.submit(text(140, 3), {.session = "next", .max_tokens = 1});
    h.run();
    Client& c = h.submit(text(40, 2) + text(5, 4), {.pool = id});
    h.run();
    EXPECT_EQ(c.admitted->n_pool_shared, anchor ? 40 : 0);
    EXPECT_EQ(c.admitted->no_share_reason.empty(), anchor);
    EXPECT_EQ(c.tokens, solo(world, c.prompt, 4)) << "right either way";
  }
}

}  // namespace
}  // namespace roost::engine::test
