#include "agent/turn_registry.h"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "core/check.h"
#include "store/session_lease.h"

namespace roost::agent {
namespace {

constexpr std::chrono::milliseconds kLookInterval{500};
constexpr std::string_view kMarkLifeMs = "60000";

std::string mark_key(std::string_view session_id) { return fmt::format("session:{}:cancel", session_id); }

Error no_such_turn(std::string_view session_id, std::string_view turn_id) {
  const std::string which = turn_id.empty() ? std::string("turn") : fmt::format("turn '{}'", turn_id);
  return {ErrorKind::turn_not_found, fmt::format("session '{}' has no {} in flight", session_id, which), {}, {}};
}

}  // namespace

struct TurnRegistry::State {
  State(asio::any_io_executor ex, std::shared_ptr<store::Redis> client)
      : executor(ex), redis(std::move(client)), timer(std::move(ex)) {}
  asio::any_io_executor executor;
  std::shared_ptr<store::Redis> redis;
  asio::steady_timer timer;
  std::list<Entry*> entries;
  bool looking = false;
  bool ended = false;
};

TurnRegistry::Entry::Entry(TurnRegistry& registry, std::string session_id, std::string turn_id)
    : registry_(registry), session_id_(std::move(session_id)), turn_id_(std::move(turn_id)) {
  State& state = *registry_.state_;
  at_ = state.entries.insert(state.entries.end(), this);
  if (std::exchange(state.looking, true)) return;
  asio::co_spawn(state.executor, look_for_cancels(registry_.state_), asio::detached);
}

TurnRegistry::Entry::~Entry() { registry_.state_->entries.erase(at_); }

TurnRegistry::TurnRegistry(asio::any_io_executor executor, std::shared_ptr<store::Redis> redis)
    : state_(std::make_shared<State>(std::move(executor), std::move(redis))) {}

TurnRegistry::~TurnRegistry() {
  ROOST_CHECK(state_->entries.empty(), "a turn outlives its registry");
  state_->ended = true;
  state_->timer.cancel();
}

std::size_t TurnRegistry::count() const { return state_->entries.size(); }

void TurnRegistry::abort_all(const std::string& reason) {
  // An abort runs callbacks, but no turn ends (and leaves the list) inside of one: coroutines resume later.
  for (Entry* entry : std::list<Entry*>(state_->entries)) entry->abort_.request(reason);
}

// Runs while there are turns.
asio::awaitable<void> TurnRegistry::look_for_cancels(std::shared_ptr<State> state) {
  while (!state->ended && !state->entries.empty()) {
    state->timer.expires_after(kLookInterval);
    co_await state->timer.async_wait(asio::as_tuple(asio::use_awaitable));
    if (state->ended || state->entries.empty()) break;
    std::vector<std::string> words{"MGET"};
    for (const Entry* entry : state->entries) words.push_back(mark_key(entry->session_id_));
    auto marks = co_await state->redis->command(words);
    if (!marks.ok()) continue;  // Redis is away: the marks wait
    // Turns may have come and gone meanwhile; a mark counts for the turn it names.
    for (const store::RedisReply& mark : marks->elements) {
      if (mark.is_nil() || mark.text.empty()) continue;
      for (Entry* entry : std::list<Entry*>(state->entries)) {
        if (entry->turn_id_ == mark.text) entry->abort_.request("cancelled");
      }
    }
  }
  state->looking = false;
}

asio::awaitable<Result<std::string>> TurnRegistry::cancel(std::string session_id, std::string turn_id) {
  const auto state = state_;
  for (Entry* entry : std::list<Entry*>(state->entries)) {
    if (entry->session_id_ != session_id || (!turn_id.empty() && entry->turn_id_ != turn_id)) continue;
    std::string found = entry->turn_id_;
    entry->abort_.request("cancelled");
    co_return found;
  }
  std::vector<std::string> words{"GET", store::lease_key(session_id)};
  auto lease = co_await state->redis->command(std::move(words));
  if (!lease.ok()) co_return std::move(lease).error();
  std::string running = store::turn_of_lease(lease->text);
  if (running.empty() || (!turn_id.empty() && running != turn_id)) co_return no_such_turn(session_id, turn_id);
  words = {"SET", mark_key(session_id), running, "PX", std::string(kMarkLifeMs)};
  auto marked = co_await state->redis->command(std::move(words));
  if (!marked.ok()) co_return std::move(marked).error();
  co_return running;
}

}  // namespace roost::agent
