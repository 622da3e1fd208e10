#include "api/generation_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "api/chat_request.h"
#include "core/ids.h"
#include "core/limits.h"

namespace roost::api {
namespace {

using engine::SamplingParams;

constexpr std::int64_t kInt32Max = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kInt64Min = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kInt64Max = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kPoolIdMax = 9'007'199'254'740'991;  // exact in a JSON number
constexpr std::int32_t kPenaltyWindowMax = 65'536;
constexpr std::size_t kLogitBiasMax = 1024;
constexpr std::size_t kCacheSaltMax = 256;
constexpr std::int64_t kTopLogprobsMax = 20;

Error invalid(std::string message) { return {ErrorKind::invalid_request, std::move(message), {}, {}}; }

// The first of several spellings that is given.
Result<void> read_float(const ObjectReader& r, std::initializer_list<std::string_view> names, double min, double max,
                        float& into) {
  for (const auto name : names) {
    ROOST_TRY(value, r.number(name, min, max));
    if (value) {
      into = static_cast<float>(*value);
      return {};
    }
  }
  return {};
}

Result<void> read_bool(const ObjectReader& r, std::string_view name, bool& into) {
  ROOST_TRY(value, r.boolean(name));
  into = value.value_or(into);
  return {};
}

// Any integer is a seed; -1 asks for a random one. The engine's seeds have 32 bits.
std::uint32_t fold_seed(std::int64_t seed) {
  if (seed == -1) return 0xFFFFFFFFU;
  const auto u = static_cast<std::uint64_t>(seed);
  const auto folded = static_cast<std::uint32_t>(u ^ (u >> 32U));
  return folded == 0xFFFFFFFFU ? 0xFFFFFFFEU : folded;
}

Result<float> parse_bias(const json::value& value) {
  if (value.is_bool() && !value.get_bool()) return -std::numeric_limits<float>::infinity();
  if (!value.is_number())
    return invalid("'logit_bias' values must be numbers from -100 to 100, or false to ban a token");
  const double n = value.to_number<double>();
  if (!(n >= -100 && n <= 100))
    return invalid(fmt::format("'logit_bias' holds {}, must be from -100 to 100", json::serialize(value)));
  return static_cast<float>(n);
}

Result<void> add_bias(std::int64_t token, const json::value& bias, std::int32_t vocabulary, SamplingParams& p) {
  if (token < 0 || token >= vocabulary) {
    return invalid(fmt::format("'logit_bias' names token {}, must be from 0 to {}", token, vocabulary - 1));
  }
  ROOST_TRY(value, parse_bias(bias));
  p.logit_bias.emplace_back(static_cast<kv::Token>(token), value);
  return {};
}

// {"id": bias} (OpenAI) or [[id, bias]] (llama-server).
Result<void> read_logit_bias(const ObjectReader& r, std::int32_t vocabulary, SamplingParams& p) {
  const json::value* value = r.find("logit_bias");
  if (value == nullptr) return {};
  const std::size_t n = value->is_object()  ? value->get_object().size()
                        : value->is_array() ? value->get_array().size()
                                            : 0;
  if (n > kLogitBiasMax) return invalid(fmt::format("'logit_bias' has {} entries, at most {}", n, kLogitBiasMax));
  if (const auto* object = value->if_object()) {
    for (const auto& member : *object) {
      const std::string_view key = member.key();
      std::int64_t token = 0;
      const auto [end, ec] = std::from_chars(key.data(), key.data() + key.size(), token);
      if (ec != std::errc{} || end != key.data() + key.size()) {
        return invalid("'logit_bias' keys must be token ids written as decimal numbers");
      }
      ROOST_TRY_VOID(add_bias(token, member.value(), vocabulary, p));
    }
    return {};
  }
  if (!value->is_array())
    return invalid("'logit_bias' must be an object {\"token id\": bias} or a list of [token id, bias]");
  for (const auto& entry : value->get_array()) {
    const auto* pair = entry.if_array();
    if (pair == nullptr || pair->size() != 2 || !pair->at(0).is_int64()) {
      return invalid("'logit_bias' entries must be [token id, bias]");
    }
    ROOST_TRY_VOID(add_bias(pair->at(0).get_int64(), pair->at(1), vocabulary, p));
  }
  return {};
}

Result<void> read_integers(const ObjectReader& r, const RequestLimits& limits, SamplingParams& p) {
  ROOST_TRY(top_k, r.integer("top_k", -1, kInt32Max));
  if (top_k) p.top_k = static_cast<std::int32_t>(std::max<std::int64_t>(*top_k, 0));
  ROOST_TRY(last_n, r.integer("repeat_last_n", -1, kPenaltyWindowMax));
  if (last_n) {
    p.repeat_last_n =
        *last_n < 0 ? std::min(limits.training_length, kPenaltyWindowMax) : static_cast<std::int32_t>(*last_n);
  }
  ROOST_TRY(seed, r.integer("seed", kInt64Min, kInt64Max));
  if (seed) p.seed = fold_seed(*seed);
  return {};
}

Result<void> read_sampling(const ObjectReader& r, const RequestLimits& limits, SamplingParams& p) {
  ROOST_TRY_VOID(read_float(r, {"temperature"}, 0, 100, p.temperature));
  ROOST_TRY_VOID(read_float(r, {"top_p"}, 0, 1, p.top_p));
  ROOST_TRY_VOID(read_float(r, {"min_p"}, 0, 1, p.min_p));
  ROOST_TRY_VOID(read_float(r, {"typical_p", "typ_p"}, 0, 1, p.typical_p));
  ROOST_TRY_VOID(read_float(r, {"repeat_penalty", "repetition_penalty"}, 0.01, 10, p.repeat_penalty));
  ROOST_TRY_VOID(read_float(r, {"presence_penalty"}, -2, 2, p.presence_penalty));
  ROOST_TRY_VOID(read_float(r, {"frequency_penalty"}, -2, 2, p.frequency_penalty));
  ROOST_TRY_VOID(read_integers(r, limits, p));
  ROOST_TRY_VOID(read_logit_bias(r, limits.vocabulary_size, p));
  ROOST_TRY_VOID(read_bool(r, "ignore_eos", p.ignore_eos));
  ROOST_TRY(grammar, r.string("grammar"));
  p.grammar = grammar.value_or("");
  return {};
}

// Chat: logprobs bool + top_logprobs. Completions: logprobs is a number. llama-server: n_probs.
Result<void> read_logprobs(const ObjectReader& r, GenerationRequest& request) {
  std::optional<std::int64_t> count;
  if (request.route == Route::chat) {
    ROOST_TRY_VOID(read_bool(r, "logprobs", request.logprobs));
    ROOST_TRY(top, r.integer("top_logprobs", 0, kTopLogprobsMax));
    if (top && !request.logprobs) return invalid("'top_logprobs' needs 'logprobs': true");
    count = top;
  } else {
    ROOST_TRY(n, r.integer(request.route == Route::native ? "n_probs" : "logprobs", 0, kTopLogprobsMax));
    count = n;
    request.logprobs = n.has_value() && (request.route == Route::completion || *n > 0);
  }
  request.sampling.want_logprob = request.logprobs;
  request.sampling.n_probs = static_cast<std::int32_t>(count.value_or(0));
  return {};
}

Result<void> read_max_tokens(const ObjectReader& r, GenerationRequest& request) {
  // -1 = no limit. The first spelling that is given counts; all are checked.
  for (const auto name : {"max_completion_tokens", "max_tokens", "n_predict"}) {
    ROOST_TRY(value, r.integer(name, -1, kInt32Max));
    if (!value) continue;
    if (*value == 0) return invalid(fmt::format("'{}' is 0, must be at least 1 (or -1 for no limit)", name));
    if (!request.max_tokens && *value > 0) request.max_tokens = static_cast<std::int32_t>(*value);
  }
  return {};
}

Result<void> read_stops(const ObjectReader& r, std::vector<std::string>& stops) {
  const json::value* value = r.find("stop");
  if (value == nullptr) return {};
  const auto add = [&](const json::value& v) -> Result<void> {
    if (!v.is_string()) return invalid("'stop' must be a string or a list of strings");
    const std::string_view text = v.get_string();
    if (text.size() > limits::kStopStringBytes) {
      return invalid(fmt::format("a 'stop' string has {} bytes, at most {}", text.size(), limits::kStopStringBytes));
    }
    if (!text.empty()) stops.emplace_back(text);
    return {};
  };
  if (!value->is_array()) return add(*value);
  if (value->get_array().size() > limits::kStopStrings) {
    return invalid(fmt::format("'stop' has {} strings, at most {}", value->get_array().size(), limits::kStopStrings));
  }
  for (const auto& v : value->get_array()) ROOST_TRY_VOID(add(v));
  return {};
}

Result<void> read_stream(const ObjectReader& r, StreamOptions& stream) {
  ROOST_TRY_VOID(read_bool(r, "stream", stream.stream));
  ROOST_TRY(options, r.object("stream_options"));
  if (options != nullptr) {
    const ObjectReader o(*options, "stream_options");
    ROOST_TRY_VOID(read_bool(o, "include_usage", stream.include_usage));
    ROOST_TRY_VOID(read_bool(o, "keepalive", stream.keepalive));
  }
  ROOST_TRY(ping, r.number("sse_ping_interval", -1, 3600));
  if (ping) stream.ping_interval_s = std::max(*ping, 0.0);
  return {};
}

// pool_id, or its older spelling where -1 is "none".
Result<void> read_pool(const ObjectReader& r, GenerationRequest& request) {
  ROOST_TRY(pool, r.integer("pool_id", 0, kPoolIdMax));
  ROOST_TRY(slot, r.integer("shared_pool_slot", -1, kPoolIdMax));
  if (pool && slot && *slot >= 0 && *pool != *slot)
    return invalid("'pool_id' and 'shared_pool_slot' name different pools");
  if (pool) {
    request.pool_id = *pool;
  } else if (slot && *slot >= 0) {
    request.pool_id = *slot;
  }
  ROOST_TRY_VOID(read_bool(r, "pool_strict", request.pool_strict));
  ROOST_TRY(shared, r.integer("shared_prefix_n_tokens", 0, kInt32Max));
  if (shared) request.shared_prefix_n_tokens = static_cast<std::int32_t>(*shared);
  return {};
}

Result<void> read_session(const json::object& body, const ObjectReader& r, GenerationRequest& request) {
  ROOST_TRY(session, parse_session_id(body, "session_id"));
  request.session_id = std::move(session);
  ROOST_TRY(salt, r.string("cache_salt"));
  request.cache_salt = salt.value_or("");
  if (request.cache_salt.size() > kCacheSaltMax) {
    return invalid(fmt::format("'cache_salt' has {} bytes, at most {}", request.cache_salt.size(), kCacheSaltMax));
  }
  ROOST_TRY(slot, r.integer("id_slot", -1, 255));
  if (slot && *slot >= 0) request.id_slot = static_cast<kv::SeqId>(*slot);
  return read_bool(r, "cache_prompt", request.cache_prompt);
}

Result<void> check_count(const ObjectReader& r) {
  ROOST_TRY(n, r.integer("n", 1, 128));
  if (n.value_or(1) > 1) return {ErrorKind::not_supported, "'n' above 1 is not supported: send one request per choice"};
  return {};
}

// What may not stand together.
Result<void> check_pairs(const GenerationRequest& request) {
  const bool has_schema = !request.json_schema.empty() || (request.chat && !request.chat->json_schema.empty());
  const bool has_tools =
      request.chat && !request.chat->tools.empty() && request.chat->tool_choice != engine::ToolChoice::none;
  const bool has_grammar = !request.sampling.grammar.empty();
  if (has_grammar && has_schema)
    return invalid("'grammar' and a JSON schema (json_schema, response_format) exclude each other");
  if (has_grammar && has_tools)
    return invalid("'grammar' and 'tools' exclude each other (tool_choice \"none\" allows both)");
  if (request.sampling.ignore_eos && (has_grammar || has_schema)) {
    return invalid("'ignore_eos' cannot be combined with a grammar or schema: they end with the end token");
  }
  return {};
}

}  // namespace

Result<std::string> parse_session_id(const json::object& body, std::string_view field) {
  ROOST_TRY(id, ObjectReader(body).string(field));
  if (!id) return std::string{};
  const bool control =
      std::ranges::any_of(*id, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  if (id->empty() || id->size() > kSessionIdMax || control) {
    return invalid(fmt::format("'{}' must have 1 to {} bytes and no control characters", field, kSessionIdMax));
  }
  return *id;
}

Result<kv::Tokens> parse_tokens(const json::array& array, std::string_view field, std::int32_t vocabulary_size) {
  kv::Tokens tokens;
  tokens.reserve(array.size());
  for (const auto& v : array) {
    if (!v.is_int64() && !v.is_uint64()) return invalid(fmt::format("'{}' must hold token ids (integers) only", field));
    const bool fits = v.is_int64() && v.get_int64() >= 0 && v.get_int64() < vocabulary_size;
    if (!fits) {
      return invalid(
          fmt::format("'{}' holds token {}, must be from 0 to {}", field, json::serialize(v), vocabulary_size - 1));
    }
    tokens.push_back(static_cast<kv::Token>(v.get_int64()));
  }
  return tokens;
}

Result<std::vector<PromptPart>> parse_prompt(const json::object& body, std::string_view field,
                                             std::int32_t vocabulary_size) {
  const json::value* value = ObjectReader(body).find(field);
  const Error missing{ErrorKind::prompt_required, fmt::format("'{}' is required and may not be empty", field), {}, {}};
  if (value == nullptr) return missing;
  std::vector<PromptPart> parts;
  if (value->is_string()) {
    if (value->get_string().empty()) return missing;
    parts.emplace_back(std::string(value->get_string()));
    return parts;
  }
  const auto* array = value->if_array();
  if (array == nullptr) return invalid(fmt::format("'{}' must be a string or a list of token ids and strings", field));
  if (array->empty()) return missing;
  const bool strings = std::ranges::all_of(*array, [](const json::value& v) { return v.is_string(); });
  if (strings && array->size() > 1) {
    return {ErrorKind::not_supported,
            fmt::format("several prompts in '{}' are not supported: send one request each", field)};
  }
  for (auto it = array->begin(); it != array->end();) {
    if (it->is_string()) {
      parts.emplace_back(std::string(it->get_string()));
      ++it;
      continue;
    }
    const auto end = std::find_if(it, array->end(), [](const json::value& v) { return v.is_string(); });
    ROOST_TRY(tokens, parse_tokens(json::array(it, end), field, vocabulary_size));
    parts.emplace_back(std::move(tokens));
    it = end;
  }
  return parts;
}

Result<GenerationRequest> parse_generation(Route route, const json::object& body, const RequestLimits& limits) {
  const ObjectReader r(body);
  GenerationRequest request;
  request.route = route;
  ROOST_TRY_VOID(check_count(r));
  ROOST_TRY_VOID(read_sampling(r, limits, request.sampling));
  ROOST_TRY_VOID(read_logprobs(r, request));
  ROOST_TRY_VOID(read_max_tokens(r, request));
  ROOST_TRY_VOID(read_stops(r, request.stops));
  ROOST_TRY_VOID(read_stream(r, request.stream));
  ROOST_TRY_VOID(read_pool(r, request));
  ROOST_TRY_VOID(read_session(body, r, request));
  if (route == Route::chat) {
    ROOST_TRY(chat, parse_chat(body));
    request.chat = std::move(chat);
    request.parallel_tool_calls_set = r.has("parallel_tool_calls") || names_one_function(body);
  } else {
    ROOST_TRY(prompt, parse_prompt(body, "prompt", limits.vocabulary_size));
    request.prompt = std::move(prompt);
    ROOST_TRY(schema, parse_schema(body));
    request.json_schema = std::move(schema);
  }
  ROOST_TRY_VOID(check_pairs(request));
  return request;
}

}  // namespace roost::api
