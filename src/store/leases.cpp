#include "store/leases.h"

#include <fmt/format.h>

#include <algorithm>

namespace roost::store {
namespace {

constexpr unsigned kTurnsPerCore = 4;

// ARGV: holder, cap, ttl in ms.
constexpr const char* kTake = R"(
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local held = redis.call('ZCARD', KEYS[1])
local mine = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not mine then
  if held >= tonumber(ARGV[2]) then return {0, held} end
  held = held + 1
end
redis.call('ZADD', KEYS[1], string.format('%.0f', now + tonumber(ARGV[3])), ARGV[1])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return {1, held})";

// ARGV: holder, ttl in ms.
constexpr const char* kExtend = R"(
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local mine = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not mine or tonumber(mine) <= now then return 0 end
redis.call('ZADD', KEYS[1], string.format('%.0f', now + tonumber(ARGV[2])), ARGV[1])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1)";

constexpr const char* kHeld = R"(
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
return redis.call('ZCOUNT', KEYS[1], string.format('(%.0f', now), '+inf'))";

std::string key_of(const std::string& sandbox_id) { return fmt::format("sh:sandbox:{}:leases", sandbox_id); }

}  // namespace

std::size_t lease_cap(std::int64_t configured, std::uint32_t capacity_max, unsigned cores) {
  const std::size_t wanted =
      configured > 0 ? static_cast<std::size_t>(configured) : std::size_t{kTurnsPerCore} * std::max(1U, cores);
  return capacity_max == 0 ? wanted : std::min(wanted, static_cast<std::size_t>(capacity_max));
}

asio::awaitable<Result<Leases::Taken>> Leases::take(std::string sandbox_id, std::string holder, std::size_t cap,
                                                    std::chrono::milliseconds ttl) {
  std::vector<std::string> keys{key_of(sandbox_id)};
  std::vector<std::string> arguments{std::move(holder), std::to_string(cap), std::to_string(ttl.count())};
  auto reply = co_await redis_->script(kTake, std::move(keys), std::move(arguments));
  if (!reply) co_return std::move(reply).error();
  if (reply->elements.size() != 2)
    co_return Error{ErrorKind::internal, "the lease script gave an answer of another form", {}, {}};
  co_return Taken{reply->elements[0].integer == 1, static_cast<std::size_t>(reply->elements[1].integer)};
}

asio::awaitable<Result<bool>> Leases::extend(std::string sandbox_id, std::string holder,
                                             std::chrono::milliseconds ttl) {
  std::vector<std::string> keys{key_of(sandbox_id)};
  std::vector<std::string> arguments{std::move(holder), std::to_string(ttl.count())};
  auto reply = co_await redis_->script(kExtend, std::move(keys), std::move(arguments));
  if (!reply) co_return std::move(reply).error();
  co_return reply->integer == 1;
}

asio::awaitable<Result<void>> Leases::release(std::string sandbox_id, std::string holder) {
  std::vector<std::string> command{"ZREM", key_of(sandbox_id), std::move(holder)};
  auto reply = co_await redis_->command(std::move(command));
  if (!reply) co_return std::move(reply).error();
  co_return Result<void>();
}

asio::awaitable<Result<std::size_t>> Leases::held(std::string sandbox_id) {
  std::vector<std::string> keys{key_of(sandbox_id)};
  auto reply = co_await redis_->script(kHeld, std::move(keys), {});
  if (!reply) co_return std::move(reply).error();
  co_return static_cast<std::size_t>(reply->integer);
}

}  // namespace roost::store
