#include "store/session_lease.h"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "core/log.h"

namespace roost::store {
namespace {

using SteadyClock = std::chrono::steady_clock;

// KEYS: lease, counter. ARGV: turn id, life in ms. The token, or the present holder's value.
constexpr std::string_view kAcquire = R"(
local holder = redis.call('GET', KEYS[1])
if holder then return holder end
local token = redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[1], token .. ':' .. ARGV[1], 'NX', 'PX', ARGV[2])
return token)";

// KEYS: lease. ARGV: value, life in ms.
constexpr std::string_view kRenew = R"(
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2]))";

// KEYS: lease. ARGV: value.
constexpr std::string_view kRelease = R"(
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1]))";

}  // namespace

struct SessionLease::State {
  State(asio::any_io_executor ex, std::shared_ptr<Redis> client) : redis(std::move(client)), timer(std::move(ex)) {}
  std::shared_ptr<Redis> redis;
  asio::steady_timer timer;  // of the renewal
  std::string session_id;
  std::string value;
  std::uint64_t token = 0;
  std::chrono::milliseconds life{};
  SteadyClock::time_point renewed;  // when the last successful renewal was sent
  bool ended = false;
  AbortSource lost;
};

namespace {

// Expects State; a template only because State is private.
template <class State>
asio::awaitable<void> renew_until_ended(std::shared_ptr<State> state) {
  while (!state->ended) {
    state->timer.expires_after(state->life / 3);
    co_await state->timer.async_wait(asio::as_tuple(asio::use_awaitable));
    if (state->ended) co_return;
    const auto sent = SteadyClock::now();
    std::vector<std::string> keys{lease_key(state->session_id)};
    std::vector<std::string> arguments{state->value, std::to_string(state->life.count())};
    auto reply = co_await state->redis->script(kRenew, std::move(keys), std::move(arguments));
    if (state->ended) co_return;
    const bool held = reply.ok() && reply->integer == 1;
    if (held) state->renewed = sent;
    // While Redis is away the lease may still be ours; once its life is over it may be anybody's.
    if ((reply.ok() && !held) || SteadyClock::now() - state->renewed >= state->life) {
      log::warn("session_lease_lost", {{"session_id", state->session_id}});
      state->ended = true;
      state->lost.request("lease_lost");
    }
  }
}

asio::awaitable<void> give_back(std::shared_ptr<Redis> redis, std::string session_id, std::string value) {
  std::vector<std::string> keys{lease_key(session_id)};
  std::vector<std::string> arguments{value};
  auto reply = co_await redis->script(kRelease, std::move(keys), std::move(arguments));
  if (!reply.ok()) log::warn("session_lease_not_released", {{"session_id", session_id}});
}

}  // namespace

std::string lease_key(std::string_view session_id) { return fmt::format("session:{}:lease", session_id); }

std::string turn_of_lease(std::string_view value) {
  const auto colon = value.find(':');
  return colon == std::string_view::npos ? std::string() : std::string(value.substr(colon + 1));
}

SessionLease::SessionLease(std::shared_ptr<State> state) : state_(std::move(state)) {}

asio::awaitable<Result<std::unique_ptr<SessionLease>>> SessionLease::acquire(asio::any_io_executor executor,
                                                                             std::shared_ptr<Redis> redis,
                                                                             std::string session_id,
                                                                             std::string turn_id,
                                                                             std::chrono::milliseconds life) {
  const auto sent = SteadyClock::now();
  std::vector<std::string> keys{lease_key(session_id), fmt::format("session:{}:fence", session_id)};
  std::vector<std::string> arguments{turn_id, std::to_string(life.count())};
  auto reply = co_await redis->script(kAcquire, std::move(keys), std::move(arguments));
  if (!reply.ok()) co_return std::move(reply).error();
  if (reply->type == RedisReply::Type::string) {
    Error held{ErrorKind::turn_in_progress, fmt::format("session '{}' has a turn in progress", session_id), {}, {}};
    held.details.emplace_back("turnId", turn_of_lease(reply->text));
    co_return held;
  }
  auto state = std::make_shared<State>(executor, std::move(redis));
  state->session_id = std::move(session_id);
  state->token = static_cast<std::uint64_t>(reply->integer);
  state->value = fmt::format("{}:{}", reply->integer, turn_id);
  state->life = life;
  state->renewed = sent;
  asio::co_spawn(executor, renew_until_ended(state), asio::detached);
  co_return std::unique_ptr<SessionLease>(new SessionLease(std::move(state)));
}

SessionLease::~SessionLease() {
  if (std::exchange(state_->ended, true)) return;
  state_->timer.cancel();
  asio::co_spawn(state_->timer.get_executor(), give_back(state_->redis, state_->session_id, state_->value),
                 asio::detached);
}

const std::string& SessionLease::session_id() const { return state_->session_id; }
const std::string& SessionLease::value() const { return state_->value; }
std::uint64_t SessionLease::token() const { return state_->token; }
AbortSource& SessionLease::lost() { return state_->lost; }

asio::awaitable<void> SessionLease::release() {
  const auto state = state_;
  if (std::exchange(state->ended, true)) co_return;
  state->timer.cancel();
  co_await give_back(state->redis, state->session_id, state->value);
}

}  // namespace roost::store
