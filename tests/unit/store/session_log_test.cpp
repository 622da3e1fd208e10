#include "store/session_log.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "redis_fixture.h"
#include "store/session_lease.h"
#include "store/session_writer.h"

namespace roost::store {
namespace {

using namespace std::chrono_literals;
using asio::awaitable;
using test::pause_for;
using test::run_until_done;

const TurnTotals kNothing;

struct SessionLogTest : testing::Test {
  SessionLogTest() {
    auto opened = Redis::open(context.get_executor(), server.url());
    EXPECT_TRUE(opened.ok());
    redis = *opened;
    run_until_done(context, [](Redis& r) -> awaitable<void> {
      auto up = co_await r.wait_connected(30s);
      EXPECT_TRUE(up.ok());
    }(*redis));
  }
  ~SessionLogTest() override {
    redis->close();
    context.restart();
    context.run_for(1s);
  }

  awaitable<Result<std::unique_ptr<SessionLease>>> lease(std::string sid, std::string turn,
                                                         std::chrono::milliseconds life) {
    return SessionLease::acquire(context.get_executor(), redis, std::move(sid), std::move(turn), life);
  }
  awaitable<RedisReply> raw(std::vector<std::string> words) {
    auto reply = co_await redis->command(std::move(words));
    EXPECT_TRUE(reply.ok());
    co_return reply.ok() ? *std::move(reply) : RedisReply{};
  }

  test::RedisServer server;
  asio::io_context context{1};
  SystemClock clock;
  std::shared_ptr<Redis> redis;
};

awaitable<void> write_and_reload(SessionLogTest& t) {
  auto lease = co_await t.lease("s1", "t1", 30s);
  EXPECT_TRUE(lease.ok());
  SessionLog log(t.redis);
  SessionWriter writer(t.context.get_executor(), log, "s1", (*lease)->value(), 0, t.clock);
  // More than one page of XRANGE, and bytes of every kind.
  std::vector<std::string> texts;
  for (int i = 0; i < 600; ++i) texts.push_back(fmt::format("{{\"n\":{},\"t\":\"\u00e4\\n\"}}", i));
  for (const std::string& text : texts) writer.append("user", text);
  const TurnTotals totals{1, 10, 20, "box-1"};
  auto flushed = co_await writer.flush(totals);
  EXPECT_TRUE(flushed.ok());
  co_await (*lease)->release();

  auto entries = co_await log.load("s1");
  EXPECT_TRUE(entries.ok());
  EXPECT_EQ(entries->size(), texts.size());
  for (std::size_t i = 0; i < entries->size(); ++i) {
    EXPECT_EQ((*entries)[i].position, i + 1);
    EXPECT_EQ((*entries)[i].json, texts[i]);
    EXPECT_EQ((*entries)[i].kind, "user");
    EXPECT_GT((*entries)[i].time_ms, 0);
  }
  auto tail = co_await log.load("s1", 590);
  EXPECT_TRUE(tail.ok());
  EXPECT_EQ(tail->size(), 10U);
  EXPECT_EQ(tail->front().position, 591U);

  auto info = co_await log.info("s1");
  EXPECT_TRUE(info.ok());
  EXPECT_EQ(info->totals.turns, 1);
  EXPECT_EQ(info->totals.input_tokens, 10);
  EXPECT_EQ(info->totals.output_tokens, 20);
  EXPECT_EQ(info->totals.sandbox_id, "box-1");
  EXPECT_EQ(info->entries, 600U);
  EXPECT_EQ(info->running_turn, "");
}

TEST_F(SessionLogTest, WhatWasWrittenIsReadBackEqualAndInOrder) { run_until_done(context, write_and_reload(*this)); }

awaitable<void> second_holder(SessionLogTest& t) {
  auto first = co_await t.lease("s", "turn-a", 30s);
  EXPECT_TRUE(first.ok());
  auto second = co_await t.lease("s", "turn-b", 30s);
  EXPECT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::turn_in_progress);
  EXPECT_EQ(second.error().details, Fields{Field("turnId", "turn-a")});
  auto other = co_await t.lease("other", "turn-c", 30s);
  EXPECT_TRUE(other.ok());

  const auto old_token = (*first)->token();
  co_await (*first)->release();
  auto third = co_await t.lease("s", "turn-d", 30s);
  EXPECT_TRUE(third.ok());
  EXPECT_GT((*third)->token(), old_token);
}

TEST_F(SessionLogTest, OneTurnHoldsASessionAndTokensGrow) { run_until_done(context, second_holder(*this)); }

awaitable<void> renewed(SessionLogTest& t) {
  auto lease = co_await t.lease("s", "turn-a", 300ms);
  EXPECT_TRUE(lease.ok());
  std::vector<std::string> words{"PEXPIRE", "session:s:lease", "60000"};
  (void)co_await t.raw(std::move(words));
  // A renewal shows as the life coming down to the lease's own again.
  std::int64_t left = 60'000;
  while (left > 1'000) {
    co_await pause_for(10ms);
    std::vector<std::string> ask{"PTTL", "session:s:lease"};
    auto reply = co_await t.raw(std::move(ask));
    left = reply.integer;
  }
  EXPECT_GT(left, 0);
  EXPECT_FALSE((*lease)->lost().requested());
}

TEST_F(SessionLogTest, ALeaseIsRenewedWhileItIsHeld) { run_until_done(context, renewed(*this)); }

// The holder's worker stood still; another turn has taken over meanwhile.
awaitable<void> lost_lease(SessionLogTest& t) {
  auto old_lease = co_await t.lease("s", "turn-a", 200ms);
  EXPECT_TRUE(old_lease.ok());
  SessionLog log(t.redis);
  SessionWriter old_writer(t.context.get_executor(), log, "s", (*old_lease)->value(), 0, t.clock);
  old_writer.append("user", "{\"by\":\"a\"}");
  (void)co_await old_writer.flush(kNothing);

  std::vector<std::string> words{"DEL", "session:s:lease"};
  (void)co_await t.raw(std::move(words));
  auto new_lease = co_await t.lease("s", "turn-b", 30s);
  EXPECT_TRUE(new_lease.ok());
  old_writer.append("assistant", "{\"by\":\"a\",\"late\":true}");
  auto refused = co_await old_writer.flush(kNothing);
  EXPECT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::turn_in_progress);

  SessionWriter new_writer(t.context.get_executor(), log, "s", (*new_lease)->value(), 1, t.clock);
  new_writer.append("user", "{\"by\":\"b\"}");
  auto kept = co_await new_writer.flush(kNothing);
  EXPECT_TRUE(kept.ok());
  auto entries = co_await log.load("s");
  EXPECT_EQ(entries->size(), 2U);
  EXPECT_EQ(entries->back().json, "{\"by\":\"b\"}");

  while (!(*old_lease)->lost().requested()) co_await pause_for(10ms);
  EXPECT_EQ((*old_lease)->lost().reason(), "lease_lost");
  // The late holder's release does not touch the new holder's lease.
  co_await (*old_lease)->release();
  auto info = co_await log.info("s");
  EXPECT_EQ(info->running_turn, "turn-b");
}

TEST_F(SessionLogTest, AWriterThatLostItsLeaseCannotAppendAndLearnsOfIt) { run_until_done(context, lost_lease(*this)); }

awaitable<void> hole(SessionLogTest& t) {
  auto lease = co_await t.lease("s", "turn-a", 30s);
  SessionLog log(t.redis);
  SessionWriter writer(t.context.get_executor(), log, "s", (*lease)->value(), 7, t.clock);
  writer.append("user", "{}");
  auto flushed = co_await writer.flush(kNothing);
  EXPECT_FALSE(flushed.ok());
  auto entries = co_await log.load("s");
  EXPECT_TRUE(entries->empty());
}

TEST_F(SessionLogTest, AWriterWithAnotherIdeaOfTheEndIsRefused) { run_until_done(context, hole(*this)); }

awaitable<void> damage(SessionLogTest& t) {
  auto lease = co_await t.lease("s", "turn-a", 30s);
  SessionLog log(t.redis);
  SessionWriter writer(t.context.get_executor(), log, "s", (*lease)->value(), 0, t.clock);
  writer.append("user", "{}");
  (void)co_await writer.flush(kNothing);
  std::vector<std::string> words{"XADD", "session:s", "2-0", "kind", "user", "json", "{\"x\":1}", "sha256", "00"};
  (void)co_await t.raw(std::move(words));
  auto loaded = co_await log.load("s");
  EXPECT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error().kind, ErrorKind::internal);
  EXPECT_NE(loaded.error().message.find("entry 2"), std::string::npos);
  std::vector<std::string> drop{"XDEL", "session:s", "1-0"};
  (void)co_await t.raw(std::move(drop));
  auto gap = co_await log.load("s");
  EXPECT_FALSE(gap.ok());
  EXPECT_NE(gap.error().message.find("entry 1"), std::string::npos);
}

TEST_F(SessionLogTest, ADamagedOrMissingEntryIsNoticed) { run_until_done(context, damage(*this)); }

awaitable<void> error_surfaces(SessionLogTest& t) {
  auto lease = co_await t.lease("s", "turn-a", 30s);
  SessionLog log(t.redis);
  SessionWriter writer(t.context.get_executor(), log, "s", (*lease)->value(), 0, t.clock);
  writer.append("user", "{\"n\":1}");
  auto first = co_await writer.flush(kNothing);
  EXPECT_TRUE(first.ok());
  t.server.stop();
  writer.append("assistant", "{\"n\":2}");
  auto failed = co_await writer.flush(kNothing);
  EXPECT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, ErrorKind::redis_unavailable);
  writer.append("assistant", "{\"n\":3}");
  auto again = co_await writer.flush(kNothing);
  EXPECT_FALSE(again.ok());  // no hole: nothing is written after an error
}

TEST_F(SessionLogTest, AnErrorBehindTheScenesSurfacesAtTheFlush) { run_until_done(context, error_surfaces(*this)); }

awaitable<void> index_and_delete(SessionLogTest& t) {
  SessionLog log(t.redis);
  auto unknown = co_await log.info("nobody");
  EXPECT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, ErrorKind::session_not_found);
  for (const std::string sid : {"a", "b", "c"}) {
    auto lease = co_await t.lease(sid, "t-" + sid, 30s);
    SessionWriter writer(t.context.get_executor(), log, sid, (*lease)->value(), 0, t.clock);
    writer.append("user", "{}");
    (void)co_await writer.flush(kNothing);
    co_await (*lease)->release();
    co_await pause_for(3ms);
  }
  auto all = co_await log.list(0, 10);
  EXPECT_EQ(*all, (std::vector<std::string>{"c", "b", "a"}));
  auto middle = co_await log.list(1, 1);
  EXPECT_EQ(*middle, (std::vector<std::string>{"b"}));

  auto refused = co_await log.remove("b", "0:nobody");
  EXPECT_FALSE(refused.ok());
  auto lease = co_await t.lease("b", "deleter", 30s);
  const auto token = (*lease)->token();
  auto removed = co_await log.remove("b", (*lease)->value());
  EXPECT_TRUE(removed.ok());
  co_await (*lease)->release();
  auto gone = co_await log.info("b");
  EXPECT_FALSE(gone.ok());
  auto left = co_await log.list(0, 10);
  EXPECT_EQ(*left, (std::vector<std::string>{"c", "a"}));
  auto next = co_await t.lease("b", "next", 30s);
  EXPECT_GT((*next)->token(), token);
}

TEST_F(SessionLogTest, SessionsAreListedByAnIndexAndDeletedByTheirHolderOnly) {
  run_until_done(context, index_and_delete(*this));
}

}  // namespace
}  // namespace roost::store
