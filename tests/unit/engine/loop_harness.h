// The engine loop on its fakes and a clock that stands still: one step at a time, deterministic.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine_loop.h"
#include "engine/fake_model.h"
#include "kv/fake_kv_port.h"

namespace roost::engine::test {

// What one asker has seen.
struct Client {
  RequestId id = 0;
  kv::Tokens prompt;
  std::shared_ptr<EventRing> ring;
  std::optional<Admitted> admitted;
  std::vector<PrefillProgress> progress;
  kv::Tokens tokens;
  std::optional<Finished> finished;
  std::optional<Error> failed;

  bool ended() const { return finished || failed; }
  void read() {
    while (auto event = ring->pop()) {
      ASSERT_FALSE(ended()) << "an event after the terminal one";
      if (auto* a = std::get_if<Admitted>(&*event)) {
        ASSERT_FALSE(admitted) << "admitted twice";
        admitted = *a;
      } else if (auto* p = std::get_if<PrefillProgress>(&*event)) {
        progress.push_back(*p);
      } else if (auto* t = std::get_if<TokenDrawn>(&*event)) {
        tokens.push_back(t->drawn.token);
      } else if (auto* f = std::get_if<Finished>(&*event)) {
        finished = *f;
      } else {
        failed = std::get<Failed>(*event).error;
      }
    }
  }
};

struct World {
  kv::KvTraits traits{.cells = 512, .n_seq = 64, .bytes_per_cell = 1};
  EngineOptions options{
      .parallel = 4, .max_pools = 8, .batch = 64, .auto_share_min = 4, .min_prefill = 4, .default_reserve = 32};
  FakeModel::Options model{};
  bool use_anchor = true;
};

class Harness {
 public:
  explicit Harness(World setup = {})
      : port(setup.traits),
        model(port, setup.model),
        loop(
            port, model, clock, setup.options, [] {}, setup.use_anchor) {
    model.on_batch = [this](std::span<const BatchToken> batch) { batches.emplace_back(batch.begin(), batch.end()); };
  }

  struct Ask {
    std::string session{};
    std::string salt{};
    std::optional<kv::PoolId> pool{};
    bool strict = false;
    std::optional<std::int32_t> shared{};
    std::optional<kv::SeqId> slot{};
    std::optional<std::int32_t> max_tokens = 4;
    bool cache_prompt = true;
    std::size_t ring = 1024;
  };

  Client& submit(kv::Tokens prompt, const Ask& ask) {
    const RequestId id = next_id++;
    Client& client = clients[id];
    client.id = id;
    client.prompt = prompt;
    client.ring = std::make_shared<EventRing>([] {}, ask.ring);
    Submit s;
    s.id = id;
    s.prompt = std::move(prompt);
    s.session_id = ask.session;
    s.cache_salt = ask.salt;
    s.pool_id = ask.pool;
    s.pool_strict = ask.strict;
    s.shared_prefix_n_tokens = ask.shared;
    s.id_slot = ask.slot;
    s.max_tokens = ask.max_tokens;
    s.cache_prompt = ask.cache_prompt;
    s.want_progress = true;
    s.sampler = std::make_unique<FakeSampler>(model);
    s.events = client.ring;
    loop.handle(std::move(s));
    return client;
  }
  Client& submit(kv::Tokens prompt) { return submit(std::move(prompt), Ask{}); }
  void cancel(const Client& c, FinishReason why = FinishReason::cancelled) { loop.handle(Cancel{c.id, why}); }

  StepOutcome step() {
    const StepOutcome outcome = loop.step();
    EXPECT_EQ(loop.check_integrity(), "");
    if (reading) {
      for (auto& [id, c] : clients) c.read();
    }
    return outcome;
  }
  // Until nothing is left to do.
  void run() {
    for (int i = 0; i < 10'000; ++i) {
      if (!step().worked) return;
    }
    FAIL() << "the loop does not come to rest";
  }

  std::optional<Result<PoolCreated>> create_async(PoolSource source, PoolOptions options = {}, std::string salt = {}) {
    auto result = std::make_shared<std::optional<Result<PoolCreated>>>();
    loop.handle(PoolCreate{next_id++, std::move(source), std::move(options), std::move(salt),
                           [result](Result<PoolCreated> r) { *result = std::move(r); }});
    run();
    return *result;
  }
  Result<PoolCreated> create(kv::Tokens tokens, PoolOptions options = {}, std::string salt = {}) {
    return *create_async(PoolSource{std::move(tokens)}, std::move(options), std::move(salt));
  }
  kv::PoolId pool(kv::Tokens tokens, PoolOptions options = {}) {
    return create(std::move(tokens), std::move(options))->pool_id;
  }
  Result<PoolCreated> fork(kv::PoolId parent, PoolSource source, std::optional<std::int32_t> d = {},
                           bool suffix = false, PoolOptions options = {}) {
    std::optional<Result<PoolCreated>> result;
    loop.handle(PoolFork{next_id++, parent, d, std::move(source), suffix, std::move(options),
                         [&](Result<PoolCreated> r) { result = std::move(r); }});
    run();
    return *result;
  }
  Result<PoolReleased> retain(kv::PoolId pool, RetainAction action) {
    std::optional<Result<PoolReleased>> result;
    loop.handle(PoolRetain{pool, action, [&](Result<PoolReleased> r) { result = std::move(r); }});
    step();
    return *result;
  }
  Result<PoolReleased> release(kv::PoolId pool, bool recursive = false) {
    std::optional<Result<PoolReleased>> result;
    loop.handle(PoolRelease{pool, recursive, [&](Result<PoolReleased> r) { result = std::move(r); }});
    step();
    return *result;
  }
  SessionClosed close(const std::string& session) {
    std::optional<Result<SessionClosed>> result;
    loop.handle(CloseSession{session, [&](Result<SessionClosed> r) { result = std::move(r); }});
    step();
    return **result;
  }

  std::size_t prefilled() const { return loop.view()->tokens_prefilled_total; }
  std::size_t cells() const { return loop.store().ledger().used(); }
  void pass(double s) { clock.advance(Duration(static_cast<std::int64_t>(s * 1e9))); }

  ManualClock clock;
  kv::FakeKvPort port;
  FakeModel model;
  std::vector<std::vector<BatchToken>> batches;
  EngineLoop loop;
  std::map<RequestId, Client> clients;
  RequestId next_id = 1;
  bool reading = true;
};

// n tokens that differ for different `kind`s.
inline kv::Tokens text(int n, int kind = 0) {
  kv::Tokens t;
  for (int i = 0; i < n; ++i) t.push_back((kind * 131 + i * 7 + 1) % 900);
  return t;
}
inline kv::Tokens operator+(kv::Tokens a, const kv::Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// What a fresh engine with nobody else in it answers.
inline kv::Tokens solo(const World& like, const kv::Tokens& prompt, std::int32_t max_tokens) {
  World setup = like;
  setup.options.parallel = 1;
  setup.options.max_pools = 0;
  setup.options.auto_share = false;
  setup.traits.n_seq = 1;
  Harness h(setup);
  Client& c = h.submit(prompt, {.max_tokens = max_tokens});
  h.run();
  return c.tokens;
}

}  // namespace roost::engine::test
