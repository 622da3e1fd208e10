// The threaded facade: many askers, one engine thread.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>

#include "engine/fake_model.h"
#include "loop_harness.h"

namespace roost::engine::test {
namespace {

using namespace std::chrono_literals;

// One request, read by the thread that made it.
class Asker {
 public:
  explicit Asker(std::size_t capacity = 1024)
      : ring_(std::make_shared<EventRing>([wake = signal_] { wake->ring(); }, capacity)) {}

  Submit ask(const FakeModel& model, RequestId id, kv::Tokens prompt, std::int32_t max_tokens) {
    Submit s;
    s.id = id;
    s.prompt = std::move(prompt);
    s.max_tokens = max_tokens;
    s.sampler = std::make_unique<FakeSampler>(model);
    s.events = ring_;
    return s;
  }
  std::optional<Event> next() {
    while (true) {
      if (auto event = ring_->pop()) return event;
      if (!signal_->wait(30s)) return std::nullopt;
    }
  }
  // All tokens; empty when the request failed.
  std::optional<kv::Tokens> answer() {
    kv::Tokens tokens;
    while (auto event = next()) {
      if (auto* t = std::get_if<TokenDrawn>(&*event)) tokens.push_back(t->drawn.token);
      if (std::holds_alternative<Finished>(*event)) return tokens;
      if (auto* f = std::get_if<Failed>(&*event)) {
        error = f->error;
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

  std::optional<Error> error;

 private:
  struct Signal {
    std::mutex mutex;
    std::condition_variable changed;
    bool on = false;
    void ring() {
      const std::lock_guard lock(mutex);
      on = true;
      changed.notify_one();
    }
    bool wait(std::chrono::seconds most) {
      std::unique_lock lock(mutex);
      if (!changed.wait_for(lock, most, [this] { return on; })) return false;
      on = false;
      return true;
    }
  };
  std::shared_ptr<Signal> signal_ = std::make_shared<Signal>();
  std::shared_ptr<EventRing> ring_;
};

class EngineTest : public testing::Test {
 protected:
  void TearDown() override { stop(); }
  void stop() {
    engine.stop();
    if (thread.joinable()) thread.join();
  }

  SystemClock clock;
  kv::FakeKvPort port{{.cells = 512, .n_seq = 24, .bytes_per_cell = 1}};
  FakeModel model{port, {}};
  Engine engine{
      port, model, clock, {.parallel = 4, .max_pools = 4, .batch = 64, .auto_share_min = 4, .default_reserve = 32}};
  std::thread thread{[this] { engine.run(); }};
};

TEST_F(EngineTest, AnswersManyAskersAtOnce) {
  std::vector<std::thread> askers;
  std::atomic<int> right{0};
  for (int i = 0; i < 6; ++i) {
    askers.emplace_back([&, i] {
      for (int round = 0; round < 4; ++round) {
        const auto prompt = text(20) + text(5, i + 1);
        Asker asker;
        if (!engine.post(asker.ask(model, static_cast<RequestId>(i * 100 + round), prompt, 6))) continue;
        const auto tokens = asker.answer();
        EXPECT_GE(engine.view()->cells_total, 512U);
        if (tokens && *tokens == solo({}, prompt, 6)) ++right;
      }
    });
  }
  for (auto& t : askers) t.join();
  EXPECT_EQ(right, 24);
}

TEST_F(EngineTest, APoolIsInTheViewWhenItsCreatorHasTheAnswer) {
  std::promise<PoolCreated> made;
  ASSERT_TRUE(
      engine.post(PoolCreate{1, PoolSource{text(50)}, {}, "", [&](Result<PoolCreated> r) { made.set_value(*r); }}));
  const auto pool = made.get_future().get();
  const auto view = engine.view();
  ASSERT_EQ(view->pools.size(), 1U);
  EXPECT_EQ(view->pools[0].pool_id, pool.pool_id);
  EXPECT_EQ(*view->pools[0].tokens, text(50));
}

TEST_F(EngineTest, ACancelFromAnotherThreadEndsARequest) {
  Asker asker;
  ASSERT_TRUE(engine.post(asker.ask(model, 1, text(10), 400)));
  ASSERT_TRUE(asker.next());
  ASSERT_TRUE(engine.post(Cancel{1}));
  EXPECT_TRUE(asker.answer());
}

TEST_F(EngineTest, AReaderThatCatchesUpWakesTheEngine) {
  Asker asker(4);
  ASSERT_TRUE(engine.post(asker.ask(model, 1, text(10), 100)));
  const auto tokens = asker.answer();
  ASSERT_TRUE(tokens);
  EXPECT_EQ(tokens->size(), 100U);
}

TEST_F(EngineTest, IdleItTakesNoStep) {
  Asker asker;
  ASSERT_TRUE(engine.post(asker.ask(model, 1, text(10), 3)));
  ASSERT_TRUE(asker.answer());
  std::promise<std::string> checked;
  ASSERT_TRUE(
      engine.post(CheckIntegrity{[&](Result<std::string> r) { checked.set_value(r ? *r : r.error().message); }}));
  EXPECT_EQ(checked.get_future().get(), "ok");
  EXPECT_EQ(engine.view()->n_decoding, 0);
}

TEST_F(EngineTest, StoppingAnswersWhatIsOpenAndRefusesWhatComesAfter) {
  Asker open;
  ASSERT_TRUE(engine.post(open.ask(model, 1, text(10), 100'000)));
  ASSERT_TRUE(open.next());
  engine.stop();
  const auto tokens = open.answer();
  EXPECT_TRUE(tokens || open.error->kind == ErrorKind::shutting_down);
  thread.join();
  Asker late;
  EXPECT_FALSE(engine.post(late.ask(model, 2, text(10), 5)));
  EXPECT_TRUE(engine.stopped());
}

TEST(EngineQueue, AFullQueueIsARefusalNotAWait) {
  SystemClock clock;
  kv::FakeKvPort port{{.cells = 64, .n_seq = 4, .bytes_per_cell = 1}};
  FakeModel model{port, {}};
  Engine engine{port, model, clock, {.parallel = 2, .max_pools = 2, .command_queue = 2}};
  Asker a, b, c;
  EXPECT_TRUE(engine.post(a.ask(model, 1, text(5), 2)));
  EXPECT_TRUE(engine.post(b.ask(model, 2, text(5), 2)));
  EXPECT_FALSE(engine.post(c.ask(model, 3, text(5), 2)));
  engine.stop();
  engine.run();
  EXPECT_FALSE(a.answer());
  EXPECT_EQ(a.error->kind, ErrorKind::shutting_down);
}

}  // namespace
}  // namespace roost::engine::test
