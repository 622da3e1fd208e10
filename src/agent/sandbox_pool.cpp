#include "agent/sandbox_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "core/log.h"

namespace roost::agent {
namespace {

// A lease that is extended until it is given back.
class LeasedSeat final : public SandboxSeat {
 public:
  LeasedSeat(const asio::any_io_executor& executor, std::shared_ptr<store::Redis> redis,
             std::shared_ptr<sandbox::ExecClient> exec, std::string sandbox_id, std::string holder)
      : exec_(std::move(exec)), state_(std::make_shared<State>(executor, std::move(redis))) {
    state_->sandbox_id = std::move(sandbox_id);
    state_->holder = std::move(holder);
    asio::co_spawn(executor, extend_until_ended(state_), asio::detached);
  }
  ~LeasedSeat() override {
    if (!end()) return;
    asio::co_spawn(state_->timer.get_executor(), give_back(state_), asio::detached);
  }

  const std::string& sandbox_id() const override { return state_->sandbox_id; }

  asio::awaitable<Result<sandbox::ExecOutcome>> exec(sandbox::ExecSpec spec, AbortSource* abort) override {
    spec.sandbox_id = state_->sandbox_id;
    return exec_->exec(std::move(spec), abort);
  }

  asio::awaitable<void> release() override {
    const auto state = state_;
    if (end()) co_await give_back(state);
  }

 private:
  struct State {
    State(const asio::any_io_executor& executor, std::shared_ptr<store::Redis> redis)
        : timer(executor), leases(std::move(redis)) {}
    asio::steady_timer timer;
    store::Leases leases;
    std::string sandbox_id;
    std::string holder;
    bool ended = false;
  };

  // True the first time.
  bool end() {
    if (std::exchange(state_->ended, true)) return false;
    state_->timer.cancel();
    return true;
  }

  static asio::awaitable<void> extend_until_ended(std::shared_ptr<State> state) {
    while (!state->ended) {
      state->timer.expires_after(store::kLeaseTtl / 3);
      co_await state->timer.async_wait(asio::as_tuple(asio::use_awaitable));
      if (state->ended) co_return;
      auto extended = co_await state->leases.extend(state->sandbox_id, state->holder);
      const bool gone = extended.ok() && !*extended;
      // The turn goes on: the lease bounds load, it does not guard data.
      if (gone) log::warn("sandbox_lease_expired", {{"sandbox", state->sandbox_id}});
    }
  }
  static asio::awaitable<void> give_back(std::shared_ptr<State> state) {
    auto released = co_await state->leases.release(state->sandbox_id, state->holder);
    if (!released.ok()) log::warn("sandbox_lease_not_released", {{"sandbox", state->sandbox_id}});
  }

  std::shared_ptr<sandbox::ExecClient> exec_;
  std::shared_ptr<State> state_;
};

}  // namespace

SandboxPool::SandboxPool(asio::any_io_executor executor, std::shared_ptr<store::Redis> redis,
                         std::shared_ptr<sandbox::ExecClient> exec, Options options)
    : executor_(std::move(executor)), redis_(std::move(redis)), exec_(std::move(exec)), options_(options) {}

asio::awaitable<Result<std::unique_ptr<SandboxSeat>>> SandboxPool::take(std::string holder, std::string preferred) {
  store::Presence presence(redis_);
  auto records = co_await presence.list();
  if (!records.ok()) co_return std::move(records).error();
  if (records->empty()) {
    co_return Error{
        ErrorKind::pool_empty,
        "no sandbox is present (source: records, the hash sh:sandbox:records that the relay keeps); start one "
        "with `roost sandbox`",
        {},
        {}};
  }
  std::vector<Candidate> candidates;
  for (const store::SandboxRecord& record : *records) {
    candidates.push_back({record.sandbox_id, store::lease_cap(options_.cap, record.capacity_max, options_.cores), 0});
  }
  const auto own = std::ranges::find(candidates, preferred, &Candidate::id);
  if (own != candidates.end()) {
    auto taken = co_await try_take(*own, holder);
    if (!taken.ok()) co_return std::move(taken).error();
    if (*taken) co_return seat(preferred, holder);
    candidates.erase(own);
  }
  if (auto sorted = co_await by_load(candidates); !sorted.ok()) co_return std::move(sorted).error();
  for (const Candidate& candidate : candidates) {
    auto taken = co_await try_take(candidate, holder);
    if (!taken.ok()) co_return std::move(taken).error();
    if (*taken) co_return seat(candidate.id, holder);
  }
  co_return Error{ErrorKind::sandbox_saturated,
                  fmt::format("every sandbox that is present ({}) has all its places taken", records->size()),
                  {},
                  {}};
}

asio::awaitable<Result<void>> SandboxPool::by_load(std::vector<Candidate>& candidates) {
  if (candidates.size() < 2) co_return Result<void>{};
  store::Leases leases(redis_);
  for (Candidate& candidate : candidates) {
    auto held = co_await leases.held(candidate.id);
    if (!held.ok()) co_return std::move(held).error();
    candidate.held = *held;
  }
  // held / cap, compared without division.
  std::ranges::stable_sort(candidates,
                           [](const Candidate& a, const Candidate& b) { return a.held * b.cap < b.held * a.cap; });
  co_return Result<void>{};
}

asio::awaitable<Result<bool>> SandboxPool::try_take(const Candidate& candidate, std::string holder) {
  store::Leases leases(redis_);
  auto taken = co_await leases.take(candidate.id, std::move(holder), candidate.cap);
  if (!taken.ok()) co_return std::move(taken).error();
  co_return taken->taken;
}

std::unique_ptr<SandboxSeat> SandboxPool::seat(std::string sandbox_id, std::string holder) {
  return std::make_unique<LeasedSeat>(executor_, redis_, exec_, std::move(sandbox_id), std::move(holder));
}

}  // namespace roost::agent
