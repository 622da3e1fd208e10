#include "api/pool_request.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

namespace roost::api {
namespace {

constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();
constexpr double kTtlMax = 1.0e9;

Error invalid(std::string message) { return {ErrorKind::invalid_request, std::move(message), {}, {}}; }

struct SourceField {
  std::string_view name;
  bool fork_only = false;
};
constexpr SourceField kSources[] = {
    {"tokens"}, {"prompt"}, {"messages"}, {"from_session"}, {"from_slot"}, {"suffix_tokens", true}, {"suffix", true}};

// The name of the one source that is given.
Result<std::string_view> the_source(const ObjectReader& r, bool fork) {
  std::string names;
  std::string_view found;
  for (const SourceField& field : kSources) {
    if (field.fork_only && !fork) continue;
    names += (names.empty() ? "" : ", ") + std::string(field.name);
    if (!r.has(field.name)) continue;
    if (!found.empty())
      return invalid(fmt::format("'{}' and '{}' are both given; exactly one source is needed", found, field.name));
    found = field.name;
  }
  if (found.empty()) return invalid(fmt::format("a source is needed: exactly one of {}", names));
  return found;
}

Result<kv::Tokens> read_tokens(const ObjectReader& r, std::string_view name, std::int32_t vocabulary_size) {
  ROOST_TRY(array, r.array(name));
  if (array->empty()) return {ErrorKind::prompt_required, fmt::format("'{}' may not be empty", name)};
  return parse_tokens(*array, name, vocabulary_size);
}

Result<PoolOrigin> read_text(const ObjectReader& r, std::string_view name) {
  ROOST_TRY(text, r.string(name));
  if (text->empty()) return {ErrorKind::prompt_required, fmt::format("'{}' may not be empty", name)};
  return PoolOrigin(PromptText{*std::move(text)});
}

Result<PoolOrigin> read_origin(const json::object& body, std::string_view name, std::int32_t vocabulary_size) {
  const ObjectReader r(body);
  if (name == "tokens" || name == "suffix_tokens") {
    ROOST_TRY(tokens, read_tokens(r, name, vocabulary_size));
    return PoolOrigin(std::move(tokens));
  }
  if (name == "prompt" || name == "suffix") return read_text(r, name);
  if (name == "messages") {
    ROOST_TRY(chat, parse_chat(body));
    return PoolOrigin(std::move(chat));
  }
  if (name == "from_session") {
    ROOST_TRY(session, parse_session_id(body, name));
    return PoolOrigin(FromSession{std::move(session)});
  }
  ROOST_TRY(slot, r.integer(name, 0, 255));
  return PoolOrigin(FromSlot{static_cast<kv::SeqId>(*slot)});
}

Result<engine::PoolOptions> read_options(const json::object& body) {
  const ObjectReader r(body);
  engine::PoolOptions options;
  ROOST_TRY(pin, r.boolean("pin"));
  options.pin = pin.value_or(false);
  ROOST_TRY(ephemeral, r.boolean("ephemeral"));
  options.ephemeral = ephemeral.value_or(false);
  ROOST_TRY(ttl, r.number("ttl_s", 0, kTtlMax));
  options.ttl_s = ttl;
  ROOST_TRY(shared, r.boolean("shared"));
  options.shared = shared.value_or(false);
  ROOST_TRY(expect_len, r.integer("expect_len", 0, kInt32Max));
  if (expect_len) options.expect_len = static_cast<std::int32_t>(*expect_len);
  ROOST_TRY(owner, parse_session_id(body, "session_id"));
  ROOST_TRY(unowned, r.boolean("unowned"));
  if (unowned.value_or(false) && !owner.empty())
    return invalid("'unowned' and 'session_id' (the owner) exclude each other");
  if (options.shared && !owner.empty()) return invalid("'shared' pools have no owner: leave 'session_id' out");
  if (options.pin && options.ephemeral) return invalid("'pin' and 'ephemeral' exclude each other");
  options.owner = std::move(owner);
  return options;
}

Result<PoolRequest> parse(const json::object& body, bool fork, std::int32_t vocabulary_size) {
  const ObjectReader r(body);
  PoolRequest request;
  ROOST_TRY(source, the_source(r, fork));
  ROOST_TRY(origin, read_origin(body, source, vocabulary_size));
  request.origin = std::move(origin);
  request.is_suffix = source == "suffix" || source == "suffix_tokens";
  ROOST_TRY(options, read_options(body));
  request.options = std::move(options);
  ROOST_TRY(salt, r.string("cache_salt"));
  request.cache_salt = salt.value_or("");
  if (!fork) return request;
  if (request.options.shared) return invalid("'shared' is for root pools; a fork is always a new pool");
  ROOST_TRY(branch, r.integer("branch_pos", 0, kInt32Max));
  if (branch) request.branch_pos = static_cast<std::int32_t>(*branch);
  return request;
}

}  // namespace

Result<PoolRequest> parse_pool_create(const json::object& body, std::int32_t vocabulary_size) {
  return parse(body, false, vocabulary_size);
}

Result<PoolRequest> parse_pool_fork(const json::object& body, std::int32_t vocabulary_size) {
  return parse(body, true, vocabulary_size);
}

Result<kv::PoolId> parse_pool_id(std::string_view text) {
  kv::PoolId id = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (ec != std::errc{} || end != text.data() + text.size() || text.empty() || id < 0) {
    return invalid(fmt::format("a pool id is a whole number of at least 0, not '{}'", text.substr(0, 64)));
  }
  return id;
}

}  // namespace roost::api
