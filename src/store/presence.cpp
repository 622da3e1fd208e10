#include "store/presence.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/json.h"

namespace roost::store {
namespace {

constexpr const char* kKey = "sh:sandbox:records";

// ARGV: id, the record without its closing brace, epoch, ttl in ms. The time is Redis's.
constexpr const char* kPut = R"(
local old = redis.call('HGET', KEYS[1], ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if old then
  local ok, record = pcall(cjson.decode, old)
  if ok and type(record) == 'table' and type(record.epoch) == 'number' and type(record.expires) == 'number'
      and record.epoch > tonumber(ARGV[3]) and record.expires > now then
    return 0
  end
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. string.format(',"expires":%.0f}', now + tonumber(ARGV[4])))
return 1)";

// ARGV: id, epoch.
constexpr const char* kRemove = R"(
local old = redis.call('HGET', KEYS[1], ARGV[1])
if not old then return 0 end
local ok, record = pcall(cjson.decode, old)
if ok and type(record) == 'table' and type(record.epoch) == 'number' and record.epoch > tonumber(ARGV[2]) then return 0 end
return redis.call('HDEL', KEYS[1], ARGV[1]))";

constexpr const char* kList = R"(
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local live = {}
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local ok, record = pcall(cjson.decode, all[i + 1])
  if ok and type(record) == 'table' and type(record.expires) == 'number' and record.expires > now then
    live[#live + 1] = all[i + 1]
  else
    redis.call('HDEL', KEYS[1], all[i])
  end
end
return live)";

// The record as a JSON object without `expires` and without the closing brace.
std::string open_json(const SandboxRecord& record) {
  json::object labels;
  for (const auto& [name, value] : record.labels) labels[name] = value;
  json::object object;
  object["sandboxId"] = record.sandbox_id;
  object["labels"] = std::move(labels);
  object["capabilities"] = json::array(record.capabilities.begin(), record.capabilities.end());
  object["capacityMax"] = record.capacity_max;
  object["transport"] = record.transport;
  object["relay"] = record.relay;
  object["epoch"] = record.epoch;
  std::string text = json::serialize(object);
  text.pop_back();
  return text;
}

Result<SandboxRecord> parse_record(const std::string& text) {
  ROOST_TRY(object, parse_json_object(text));
  const ObjectReader reader(object, "record");
  constexpr std::int64_t kMax = std::int64_t{1} << 53U;
  ROOST_TRY(id, reader.string("sandboxId"));
  ROOST_TRY(capacity, reader.integer("capacityMax", 0, UINT32_MAX));
  ROOST_TRY(transport, reader.string("transport"));
  ROOST_TRY(relay, reader.string("relay"));
  ROOST_TRY(epoch, reader.integer("epoch", 0, kMax));
  ROOST_TRY(expires, reader.integer("expires", 0, kMax));
  ROOST_TRY(labels, reader.object("labels"));
  ROOST_TRY(capabilities, reader.array("capabilities"));
  if (!id || id->empty()) return {ErrorKind::invalid_request, "record.sandboxId: missing"};
  SandboxRecord record{*id,
                       {},
                       {},
                       static_cast<std::uint32_t>(capacity.value_or(0)),
                       transport.value_or(""),
                       relay.value_or(""),
                       epoch.value_or(0),
                       expires.value_or(0)};
  if (labels != nullptr) {
    for (const auto& [name, value] : *labels) {
      if (value.is_string()) record.labels[std::string(name)] = value.get_string();
    }
  }
  if (capabilities != nullptr) {
    for (const auto& value : *capabilities) {
      if (value.is_string()) record.capabilities.emplace_back(value.get_string());
    }
  }
  return record;
}

}  // namespace

bool SandboxRecord::can(std::string_view capability) const {
  return std::find(capabilities.begin(), capabilities.end(), capability) != capabilities.end();
}

asio::awaitable<Result<void>> Presence::put(SandboxRecord record, std::chrono::milliseconds ttl) {
  std::vector<std::string> keys{kKey};
  std::vector<std::string> arguments{record.sandbox_id, open_json(record), std::to_string(record.epoch),
                                     std::to_string(ttl.count())};
  auto reply = co_await redis_->script(kPut, std::move(keys), std::move(arguments));
  if (!reply) co_return std::move(reply).error();
  co_return Result<void>();
}

asio::awaitable<Result<void>> Presence::remove(std::string sandbox_id, std::int64_t epoch) {
  std::vector<std::string> keys{kKey};
  std::vector<std::string> arguments{std::move(sandbox_id), std::to_string(epoch)};
  auto reply = co_await redis_->script(kRemove, std::move(keys), std::move(arguments));
  if (!reply) co_return std::move(reply).error();
  co_return Result<void>();
}

asio::awaitable<Result<std::vector<SandboxRecord>>> Presence::list() {
  std::vector<std::string> keys{kKey};
  auto reply = co_await redis_->script(kList, std::move(keys), {});
  if (!reply) co_return std::move(reply).error();
  std::vector<SandboxRecord> records;
  for (const RedisReply& element : reply->elements) {
    // A record that another kind of writer made may lack what we need: not ours to fail on.
    if (auto record = parse_record(element.text)) records.push_back(*std::move(record));
  }
  std::sort(records.begin(), records.end(), [](const auto& a, const auto& b) { return a.sandbox_id < b.sandbox_id; });
  co_return records;
}

}  // namespace roost::store
