#include "store/session_log.h"

#include <fmt/format.h>

#include <charconv>

#include "store/digest.h"

namespace roost::store {
namespace {

constexpr std::string_view kIndex = "sessions";

// KEYS: stream, lease, meta, index. ARGV: lease value, session id, last position, turns, input, output, sandbox, now in
// ms, then time, kind, json, sha256 of each entry. 0, or -1: the lease is another's, or -2: the log ends elsewhere.
constexpr std::string_view kAppend = R"(
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return -1 end
local position = 0
local top = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
if top[1] then position = tonumber(string.match(top[1][1], '^%d+')) end
if position ~= tonumber(ARGV[3]) then return -2 end
for i = 9, #ARGV, 4 do
  position = position + 1
  redis.call('XADD', KEYS[1], position .. '-0', 'position', position, 'time', ARGV[i], 'kind', ARGV[i + 1],
             'json', ARGV[i + 2], 'sha256', ARGV[i + 3])
end
redis.call('HSETNX', KEYS[3], 'created', ARGV[8])
redis.call('HSET', KEYS[3], 'updated', ARGV[8])
if ARGV[4] ~= '0' then redis.call('HINCRBY', KEYS[3], 'turns', ARGV[4]) end
if ARGV[5] ~= '0' then redis.call('HINCRBY', KEYS[3], 'input', ARGV[5]) end
if ARGV[6] ~= '0' then redis.call('HINCRBY', KEYS[3], 'output', ARGV[6]) end
if ARGV[7] ~= '' then redis.call('HSET', KEYS[3], 'sandbox', ARGV[7]) end
redis.call('ZADD', KEYS[4], ARGV[8], ARGV[2])
return 0)";

// KEYS: stream, lease, meta, index. ARGV: lease value, session id.
constexpr std::string_view kRemove = R"(
if redis.call('GET', KEYS[2]) ~= ARGV[1] then return -1 end
redis.call('DEL', KEYS[1], KEYS[3])
redis.call('ZREM', KEYS[4], ARGV[2])
return 0)";

std::string stream_key(std::string_view session_id) { return fmt::format("session:{}", session_id); }
std::string meta_key(std::string_view session_id) { return fmt::format("session:{}:meta", session_id); }

std::vector<std::string> keys_of(std::string_view session_id) {
  return {stream_key(session_id), lease_key(session_id), meta_key(session_id), std::string(kIndex)};
}

std::int64_t to_number(std::string_view text) {
  std::int64_t n = 0;
  std::from_chars(text.data(), text.data() + text.size(), n);
  return n;
}

Error damaged(std::string_view session_id, std::uint64_t position, std::string_view why) {
  return {
      ErrorKind::internal, fmt::format("session '{}' is damaged at entry {}: {}", session_id, position, why), {}, {}};
}

// One element of XRANGE's answer: [id, [name, value, ...]].
Result<LogEntry> parse_entry(std::string_view session_id, const RedisReply& element, std::uint64_t expected) {
  if (element.elements.size() != 2) return damaged(session_id, expected, "not a stream entry");
  LogEntry entry;
  entry.position = static_cast<std::uint64_t>(to_number(element.elements[0].text));
  if (entry.position != expected) return damaged(session_id, expected, "missing");
  std::string sha256;
  const auto& fields = element.elements[1].elements;
  for (std::size_t i = 0; i + 1 < fields.size(); i += 2) {
    const std::string& name = fields[i].text;
    const std::string& value = fields[i + 1].text;
    if (name == "time") entry.time_ms = to_number(value);
    if (name == "kind") entry.kind = value;
    if (name == "json") entry.json = value;
    if (name == "sha256") sha256 = value;
  }
  if (sha256_hex(entry.json) != sha256) return damaged(session_id, expected, "its SHA-256 does not fit");
  return entry;
}

}  // namespace

asio::awaitable<Result<std::vector<LogEntry>>> SessionLog::load(std::string session_id, std::uint64_t after) {
  const auto redis = redis_;
  std::vector<LogEntry> entries;
  std::size_t bytes = 0;
  while (true) {
    const std::uint64_t next = after + entries.size() + 1;
    std::vector<std::string> words{"XRANGE", stream_key(session_id),      fmt::format("{}-0", next), "+",
                                   "COUNT",  std::to_string(kSessionPage)};
    auto page = co_await redis->command(std::move(words));
    if (!page.ok()) co_return std::move(page).error();
    for (const RedisReply& element : page->elements) {
      auto entry = parse_entry(session_id, element, after + entries.size() + 1);
      if (!entry.ok()) co_return std::move(entry).error();
      bytes += entry->json.size();
      entries.push_back(*std::move(entry));
    }
    if (entries.size() > kSessionEntries || bytes > kSessionBytes) {
      co_return Error{ErrorKind::exceed_context_size,
                      fmt::format("session '{}' is longer than {} entries or {} bytes; start a new one", session_id,
                                  kSessionEntries, kSessionBytes),
                      {},
                      {}};
    }
    if (page->elements.size() < kSessionPage) co_return entries;
  }
}

asio::awaitable<Result<void>> SessionLog::append(std::string session_id, std::string lease_value,
                                                 std::uint64_t last_position, std::vector<LogEntry> entries,
                                                 TurnTotals totals) {
  const auto redis = redis_;
  const auto now =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  std::vector<std::string> arguments{std::move(lease_value),
                                     session_id,
                                     std::to_string(last_position),
                                     std::to_string(totals.turns),
                                     std::to_string(totals.input_tokens),
                                     std::to_string(totals.output_tokens),
                                     totals.sandbox_id,
                                     std::to_string(now)};
  for (LogEntry& entry : entries) {
    std::string digest = sha256_hex(entry.json);
    arguments.push_back(std::to_string(entry.time_ms));
    arguments.push_back(std::move(entry.kind));
    arguments.push_back(std::move(entry.json));
    arguments.push_back(std::move(digest));
  }
  auto keys = keys_of(session_id);
  auto reply = co_await redis->script(kAppend, std::move(keys), std::move(arguments));
  if (!reply.ok()) co_return std::move(reply).error();
  if (reply->integer == 0) co_return Result<void>{};
  const std::string_view why = reply->integer == -1 ? "its lease was lost" : "another writer was here";
  co_return Error{
      ErrorKind::turn_in_progress, fmt::format("session '{}' cannot be written: {}", session_id, why), {}, {}};
}

asio::awaitable<Result<SessionInfo>> SessionLog::info(std::string session_id) {
  const auto redis = redis_;
  std::vector<std::string> words{"HMGET",  meta_key(session_id), "turns", "input", "output", "sandbox", "created",
                                 "updated"};
  auto meta = co_await redis->command(std::move(words));
  if (!meta.ok()) co_return std::move(meta).error();
  if (meta->elements.size() != 6 || meta->elements[4].is_nil()) {
    co_return Error{ErrorKind::session_not_found, fmt::format("there is no session '{}'", session_id), {}, {}};
  }
  words = {"XLEN", stream_key(session_id)};
  auto length = co_await redis->command(std::move(words));
  if (!length.ok()) co_return std::move(length).error();
  words = {"GET", lease_key(session_id)};
  auto lease = co_await redis->command(std::move(words));
  if (!lease.ok()) co_return std::move(lease).error();

  SessionInfo info;
  info.session_id = std::move(session_id);
  const auto number = [&](std::size_t i) { return to_number(meta->elements[i].text); };
  info.totals = {number(0), number(1), number(2), meta->elements[3].text};
  info.created_ms = number(4);
  info.updated_ms = number(5);
  info.entries = static_cast<std::uint64_t>(length->integer);
  info.running_turn = turn_of_lease(lease->text);
  co_return info;
}

asio::awaitable<Result<std::vector<std::string>>> SessionLog::list(std::uint64_t offset, std::uint64_t count) {
  const auto redis = redis_;
  std::vector<std::string> ids;
  if (count == 0) co_return ids;
  std::vector<std::string> words{"ZREVRANGE", std::string(kIndex), std::to_string(offset),
                                 std::to_string(offset + count - 1)};
  auto reply = co_await redis->command(std::move(words));
  if (!reply.ok()) co_return std::move(reply).error();
  for (RedisReply& element : reply->elements) ids.push_back(std::move(element.text));
  co_return ids;
}

asio::awaitable<Result<void>> SessionLog::remove(std::string session_id, std::string lease_value) {
  const auto redis = redis_;
  auto keys = keys_of(session_id);
  std::vector<std::string> arguments{std::move(lease_value), session_id};
  auto reply = co_await redis->script(kRemove, std::move(keys), std::move(arguments));
  if (!reply.ok()) co_return std::move(reply).error();
  if (reply->integer == 0) co_return Result<void>{};
  co_return Error{ErrorKind::turn_in_progress, fmt::format("session '{}' is in use", session_id), {}, {}};
}

}  // namespace roost::store
