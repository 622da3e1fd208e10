#include "agent/turn.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/asio/detached.hpp>

#include "fakes.h"
#include "store/session_log.h"

namespace roost::agent {
namespace {

using namespace std::chrono_literals;
using asio::awaitable;
using test::bash;
using test::pause_for;
using test::run_until_done;

// Keeps what a turn tells, as short lines.
class RecordedEvents final : public TurnEvents {
 public:
  awaitable<void> on_turn(std::string, std::string session_id) override { return add("turn " + session_id); }
  awaitable<void> on_text(std::string delta) override { return add("text " + delta); }
  awaitable<void> on_model(ModelProgress) override { co_return; }
  awaitable<void> on_tool_use(const ToolCall& call) override { return add("use " + call.id); }
  awaitable<void> on_tool_result(std::string id, const ToolOutcome& outcome) override {
    return add("result " + id + (outcome.is_error ? " failed" : ""));
  }
  std::vector<std::string> lines;

 private:
  awaitable<void> add(std::string line) {
    lines.push_back(std::move(line));
    co_return;
  }
};

struct TurnTest : testing::Test {
  TurnTest() {
    redis = *store::Redis::open(context.get_executor(), server.url());
    services.executor = context.get_executor();
    services.redis = redis;
    services.sandboxes = &boxes;
    services.model = &model;
    services.clock = &clock;
    run_until_done(context, [](store::Redis& r) -> awaitable<void> { (void)co_await r.wait_connected(30s); }(*redis));
  }
  ~TurnTest() override {
    redis->close();
    context.restart();
    context.run_for(1s);
    EXPECT_EQ(boxes.seats, 0);    // every place was given back
    EXPECT_EQ(boxes.running, 0);  // no command was left running
  }

  TurnRequest request(std::string prompt) {
    TurnRequest r;
    r.prompt = std::move(prompt);
    r.session_id = "s";
    r.tools = all_tool_schemas();
    return r;
  }
  Result<TurnOutcome> run(TurnRequest r) {
    Result<TurnOutcome> result = Error{};
    run_until_done(context, run_into(std::move(r), result));
    return result;
  }
  awaitable<void> run_into(TurnRequest r, Result<TurnOutcome>& result) {
    AbortSource* source = abort.get();
    Turn turn(services, std::move(r), fmt::format("turn-{}", ++turns), *source, events);
    auto outcome = co_await turn.run();
    result = std::move(outcome);
  }
  // Runs a turn, aborts it once `when` holds.
  Result<TurnOutcome> run_aborted(TurnRequest r, std::function<bool()> when) {
    asio::co_spawn(context, abort_when(std::move(when), *abort), asio::detached);
    return run(std::move(r));
  }
  static awaitable<void> abort_when(std::function<bool()> when, AbortSource& source) {
    while (!when()) co_await pause_for(1ms);
    source.request("cancelled");
  }
  std::vector<std::string> roles_of_last_call() {
    std::vector<std::string> roles;
    for (const Message& m : model.requests.back().messages) roles.emplace_back(to_string(m.role));
    return roles;
  }
  store::SessionInfo info() {
    store::SessionInfo found;
    run_until_done(context, [](std::shared_ptr<store::Redis> r, store::SessionInfo& out) -> awaitable<void> {
      store::SessionLog log(std::move(r));
      auto read = co_await log.info("s");
      EXPECT_TRUE(read.ok());
      if (read.ok()) out = *std::move(read);
    }(redis, found));
    return found;
  }

  test::RedisServer server;
  asio::io_context context{1};
  SystemClock clock;
  std::shared_ptr<store::Redis> redis;
  test::ScriptedModel model;
  test::FakeSandboxes boxes;
  RecordedEvents events;
  TurnServices services;
  std::unique_ptr<AbortSource> abort = std::make_unique<AbortSource>();
  int turns = 0;
};

using Roles = std::vector<std::string>;
using Lines = std::vector<std::string>;

TEST_F(TurnTest, EndsWithTheModelsFinalText) {
  model.says("hello");
  const auto outcome = run(request("hi"));
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->response, "hello");
  EXPECT_EQ(outcome->stop_reason, "stop");
  EXPECT_EQ(outcome->usage, (Usage{10, 5, 3, 0}));
  EXPECT_EQ(outcome->sandbox_id, "box-1");
  EXPECT_EQ(events.lines, (Lines{"turn s", "text hello"}));
  EXPECT_EQ(info().totals.turns, 1);
  EXPECT_EQ(info().running_turn, "");
}

TEST_F(TurnTest, RunsTheToolCallsOfAReplyInParallelAndKeepsTheirOrder) {
  model.calls({bash("a", "later"), bash("b", "meet"), bash("c", "meet")});
  model.says("done");
  auto r = request("go");
  r.tool_choice = ToolChoice{ToolChoice::Mode::required, {}};
  r.pool_id = 7;
  const auto outcome = run(std::move(r));
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->response, "done");
  EXPECT_EQ(outcome->usage, (Usage{20, 10, 6, 0}));
  ASSERT_TRUE(outcome->engine);
  EXPECT_EQ(outcome->engine->calls, 2);
  EXPECT_EQ(outcome->engine->pool_id, 7);
  EXPECT_EQ(outcome->engine->n_pool_shared, 3);  // both calls attach to the same prefix: it is shared once
  EXPECT_EQ(outcome->engine->prompt_n, 20);
  EXPECT_EQ(outcome->engine->tps(), 100.0);
  EXPECT_EQ(roles_of_last_call(), (Roles{"user", "assistant", "tool", "tool", "tool"}));
  const auto& messages = model.requests.back().messages;
  EXPECT_EQ(messages[2].tool_call_id, "a");
  EXPECT_EQ(messages[4].tool_call_id, "c");
  EXPECT_EQ(events.lines.back(), "text done");
  // The choice is for the first call; the pool for all.
  EXPECT_TRUE(model.requests[0].tool_choice.has_value());
  EXPECT_FALSE(model.requests[1].tool_choice.has_value());
  EXPECT_EQ(model.requests[1].pool_id, 7);
  EXPECT_EQ(boxes.specs[0].workspace_key, "s");
}

TEST_F(TurnTest, AFailedToolIsToldToTheModelNotToTheClient) {
  boxes.outcomes["bad"] = {"", "no such file", 2, false};
  boxes.outcomes["much"] = {"xxx", "", 0, true};
  boxes.failures.emplace("gone", Error{ErrorKind::sandbox_failed, "worker disconnected", {}, {}});
  model.calls({bash("a", "bad"), bash("b", "much"), bash("c", "gone"), {"d", "bash", "not json"}, {"e", "fly", "{}"}});
  model.says("sorry");
  ASSERT_TRUE(run(request("go")).ok());
  for (std::size_t i = 2; i <= 6; ++i) EXPECT_TRUE(model.requests.back().messages[i].is_error) << i;
  EXPECT_NE(model.requests.back().messages[4].content.find("worker disconnected"), std::string::npos);
}

TEST_F(TurnTest, StopsAtItsBoundOfModelCalls) {
  for (int i = 0; i < 3; ++i) model.calls({bash("c", "x")});
  auto r = request("loop");
  r.max_turns = 2;
  const auto outcome = run(std::move(r));
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->stop_reason, "max_turns");
  EXPECT_NE(outcome->error_message.find("2 model calls"), std::string::npos);
  EXPECT_EQ(model.requests.size(), 2U);
}

TEST_F(TurnTest, ALaterTurnKnowsTheFinishedOnesAndReturnsToItsSandbox) {
  boxes.id = "box-7";
  model.calls({bash("a", "x")});
  model.says("one");
  auto first = request("1");
  first.system = "be brief";
  ASSERT_TRUE(run(std::move(first)).ok());
  model.says("two");
  ASSERT_TRUE(run(request("2")).ok());
  EXPECT_EQ(roles_of_last_call(), (Roles{"system", "user", "assistant", "tool", "assistant", "user"}));
  EXPECT_EQ(model.requests.back().messages[0].content, "be brief");
  EXPECT_EQ(boxes.preferred_ids, (Lines{"", "box-7"}));
  EXPECT_NE(boxes.holders[0], boxes.holders[1]);
  // Another system text replaces the first one.
  model.says("three");
  auto third = request("3");
  third.system = "be loud";
  ASSERT_TRUE(run(std::move(third)).ok());
  EXPECT_EQ(model.requests.back().messages[0].content, "be loud");
  EXPECT_EQ(info().totals.turns, 3);
}

TEST_F(TurnTest, ATurnWithoutToolsNeedsNoSandbox) {
  boxes.refusal = Error{ErrorKind::pool_empty, "none", {}, {}};
  model.says("fine");
  auto r = request("hi");
  r.tools.clear();
  const auto outcome = run(std::move(r));
  ASSERT_TRUE(outcome.ok());
  EXPECT_TRUE(outcome->to_json().at("sandbox").as_object().at("id").is_null());
  EXPECT_TRUE(boxes.holders.empty());
}

TEST_F(TurnTest, ARefusedTurnLeavesNoTrace) {
  boxes.refusal = Error{ErrorKind::sandbox_saturated, "full", {}, {}};
  const auto refused = run(request("hi"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::sandbox_saturated);
  EXPECT_TRUE(events.lines.empty());
  boxes.refusal.reset();
  model.says("x");
  ASSERT_TRUE(run(request("again")).ok());
  EXPECT_EQ(roles_of_last_call(), (Roles{"user"}));
}

TEST_F(TurnTest, AFailedModelCallFailsTheTurnAndTheNextOneWorks) {
  model.fails({ErrorKind::model_unavailable, "away", {}, 7});
  const auto failed = run(request("1"));
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, ErrorKind::model_unavailable);
  EXPECT_EQ(failed.error().retry_after(), 7);
  model.says("x");
  ASSERT_TRUE(run(request("2")).ok());
  EXPECT_EQ(roles_of_last_call(), (Roles{"user"}));  // the prompt that was never answered is not there
  EXPECT_EQ(info().totals.turns, 1);
}

TEST_F(TurnTest, AbortBeforeTheStart) {
  abort->request("cancelled");
  const auto outcome = run(request("hi"));
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::cancelled);
  EXPECT_TRUE(model.requests.empty());
}

TEST_F(TurnTest, AbortDuringTheModelCall) {
  model.hangs("thinking");
  const auto outcome = run_aborted(request("hi"), [&] { return model.hanging == 1; });
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::cancelled);
  EXPECT_EQ(outcome.error().details, Fields{Field("abortReason", "cancelled")});
  EXPECT_EQ(model.hanging, 0);
  EXPECT_EQ(info().running_turn, "");
}

TEST_F(TurnTest, AbortDuringToolCallsLeavesALogThatTheNextTurnLoads) {
  model.calls({bash("a", "quick"), bash("b", "hang")});
  const auto outcome = run_aborted(request("1"), [&] { return boxes.specs.size() == 2; });
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::cancelled);
  abort = std::make_unique<AbortSource>();
  model.says("ok");
  ASSERT_TRUE(run(request("2")).ok());
  EXPECT_EQ(roles_of_last_call(), (Roles{"user", "assistant", "tool", "tool", "user"}));
  EXPECT_FALSE(model.requests.back().messages[2].is_error);
  EXPECT_TRUE(model.requests.back().messages[3].is_error);
}

awaitable<void> second_turn_is_refused(TurnTest& t) {
  t.model.hangs("long");
  Result<TurnOutcome> first = Error{};
  bool ended = false;
  asio::co_spawn(t.context, t.run_into(t.request("1"), first), [&](const std::exception_ptr&) { ended = true; });
  while (t.model.hanging == 0) co_await pause_for(1ms);
  Result<TurnOutcome> second = Error{};
  co_await t.run_into(t.request("2"), second);
  EXPECT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::turn_in_progress);
  EXPECT_EQ(second.error().details, Fields{Field("turnId", "turn-1")});
  t.abort->request("cancelled");
  while (!ended) co_await pause_for(1ms);
}

TEST_F(TurnTest, ASecondTurnOfTheSameSessionIsRefusedWithTheFirstsId) {
  run_until_done(context, second_turn_is_refused(*this));
}

awaitable<void> lose_the_lease(std::shared_ptr<store::Redis> redis, test::ScriptedModel& model) {
  while (model.hanging == 0) co_await pause_for(1ms);
  for (std::int64_t entries = 0; entries == 0;) {  // the prompt is written behind
    std::vector<std::string> length{"XLEN", "session:s"};
    auto reply = co_await redis->command(std::move(length));
    EXPECT_TRUE(reply.ok());
    entries = reply.ok() ? reply->integer : 1;
  }
  std::vector<std::string> words{"SET", "session:s:lease", "999:another"};
  (void)co_await redis->command(std::move(words));
}

TEST_F(TurnTest, ATurnThatLosesItsLeaseEndsAndWritesNothingMore) {
  services.options.lease_life = 200ms;
  model.hangs("long");
  asio::co_spawn(context, lose_the_lease(redis, model), asio::detached);
  const auto outcome = run(request("1"));
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::turn_in_progress);
  EXPECT_EQ(info().running_turn, "another");
  EXPECT_EQ(info().totals.output_tokens, 0);
}

TEST_F(TurnTest, RedisAwayFailsTheTurnAndLaterTurnsWorkAgain) {
  server.stop();
  const auto failed = run(request("1"));
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().kind, ErrorKind::redis_unavailable);
  server.start();
  run_until_done(context, [](store::Redis& r) -> awaitable<void> { (void)co_await r.wait_connected(30s); }(*redis));
  model.says("back");
  const auto outcome = run(request("2"));
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
}

// The answer was there, but it could not be kept: the turn must not look finished.
TEST_F(TurnTest, ATurnWhoseLogCannotBeFlushedFails) {
  model.steps.push_back({{"x"}, {}, "stop", {}, false, {}});
  struct StopRedis final : TurnEvents {
    explicit StopRedis(test::RedisServer& s) : redis_server(s) {}
    awaitable<void> on_turn(std::string, std::string) override { co_return; }
    awaitable<void> on_text(std::string) override {
      redis_server.stop();
      co_return;
    }
    awaitable<void> on_model(ModelProgress) override { co_return; }
    awaitable<void> on_tool_use(const ToolCall&) override { co_return; }
    awaitable<void> on_tool_result(std::string, const ToolOutcome&) override { co_return; }
    test::RedisServer& redis_server;
  } stopping(server);
  Result<TurnOutcome> result = Error{};
  run_until_done(context, [](TurnTest& t, TurnEvents& e, Result<TurnOutcome>& out) -> awaitable<void> {
    Turn turn(t.services, t.request("1"), "turn-x", *t.abort, e);
    auto outcome = co_await turn.run();
    out = std::move(outcome);
  }(*this, stopping, result));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::redis_unavailable);
}

}  // namespace
}  // namespace roost::agent
