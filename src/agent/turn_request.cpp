#include "agent/turn_request.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/tools.h"
#include "core/ids.h"
#include "core/utf8.h"

namespace roost::agent {
namespace {

constexpr std::size_t kModelNameBytes = 256;
constexpr std::int64_t kMaxSeed = 4'294'967'295;  // 32 bits, what samplers take
constexpr std::int64_t kMaxPoolId = 2'147'483'647;
constexpr double kMaxTemperature = 2.0;

Error invalid(std::string message) { return {ErrorKind::invalid_request, std::move(message), {}, {}}; }

std::string_view trim(std::string_view s) {
  const auto first = s.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return s.substr(first, s.find_last_not_of(" \t") - first + 1);
}

Result<std::vector<ToolSchema>> parse_tools(const ObjectReader& body) {
  ROOST_TRY(array, body.array("tools"));
  if (array == nullptr) return all_tool_schemas();
  return read_tools(*array);
}

Result<std::optional<ToolChoice>> parse_tool_choice(const ObjectReader& body, const std::vector<ToolSchema>& tools) {
  const json::value* value = body.find("toolChoice");
  if (value == nullptr) return std::optional<ToolChoice>{};
  using Mode = ToolChoice::Mode;
  ToolChoice choice;
  if (const json::string* text = value->if_string()) {
    if (*text == "auto") return std::optional(choice);
    choice.mode = *text == "none" ? Mode::none : Mode::required;
    if (*text != "none" && *text != "required") {
      return invalid(R"('toolChoice' must be "auto", "none", "required" or {"name": ...})");
    }
    if (choice.mode == Mode::required && tools.empty())
      return invalid("'toolChoice' is \"required\" but 'tools' is empty");
    return std::optional(choice);
  }
  if (!value->is_object()) return invalid(R"('toolChoice' must be "auto", "none", "required" or {"name": ...})");
  const ObjectReader inner(value->get_object(), "toolChoice");
  ROOST_TRY(name, inner.string("name"));
  if (!name) return invalid("'toolChoice.name' is required");
  if (std::ranges::find(tools, *name, &ToolSchema::name) == tools.end()) {
    return invalid(
        fmt::format("'toolChoice.name' is '{}', which is not one of the turn's tools", utf8_prefix(*name, 64)));
  }
  choice.mode = Mode::named;
  choice.name = *std::move(name);
  return std::optional(std::move(choice));
}

Result<std::string> parse_session_id(const ObjectReader& body, std::string_view routing_session) {
  ROOST_TRY(given, body.string("sessionId"));
  const std::string_view header = trim(routing_session);
  if (!given) return std::string();
  ROOST_TRY_VOID(check_session_id(*given));
  if (!header.empty() && header != *given) {
    return {ErrorKind::session_mismatch, "the header X-SH-Session-Id and 'sessionId' name two sessions"};
  }
  return *std::move(given);
}

// The fields that only shape the model calls.
Result<void> parse_sampling(const ObjectReader& body, TurnRequest& request) {
  ROOST_TRY(pool_id, body.integer("poolId", 0, kMaxPoolId));
  ROOST_TRY(max_tokens, body.integer("maxTokens", 1, 1'048'576));
  ROOST_TRY(temperature, body.number("temperature", 0, kMaxTemperature));
  ROOST_TRY(seed, body.integer("seed", 0, kMaxSeed));
  request.pool_id = pool_id;
  request.max_tokens = max_tokens;
  request.temperature = temperature;
  request.seed = seed;
  return {};
}

}  // namespace

Result<void> check_session_id(std::string_view session_id) {
  if (is_plain_session_id(session_id)) return {};
  return invalid(fmt::format("'sessionId' must be 1 to {} of letters, digits and . _ ~ -", kSessionIdMax));
}

Result<TurnRequest> parse_turn_request(std::string_view body, std::string_view routing_session) {
  ROOST_TRY(object, parse_json_object(body));
  const ObjectReader reader(object);
  TurnRequest request;

  ROOST_TRY(prompt, reader.string("prompt"));
  if (!prompt || prompt->find_first_not_of(" \t\r\n") == std::string::npos) {
    return {ErrorKind::prompt_required, "'prompt' is required: the text of this turn"};
  }
  request.prompt = *std::move(prompt);
  ROOST_TRY(session_id, parse_session_id(reader, routing_session));
  request.session_id = std::move(session_id);
  ROOST_TRY(system, reader.string("system"));
  request.system = std::move(system);
  ROOST_TRY(tools, parse_tools(reader));
  request.tools = std::move(tools);
  ROOST_TRY(choice, parse_tool_choice(reader, request.tools));
  request.tool_choice = std::move(choice);
  ROOST_TRY(model, reader.string("model"));
  if (model && model->size() > kModelNameBytes)
    return invalid(fmt::format("'model' is longer than {} bytes", kModelNameBytes));
  request.model = std::move(model).value_or("");
  ROOST_TRY(max_turns, reader.integer("maxTurns", 1, 10'000));
  request.max_turns = max_turns;
  ROOST_TRY_VOID(parse_sampling(reader, request));

  ROOST_TRY(detachable, reader.boolean("detachable"));
  if (detachable.value_or(false)) return {ErrorKind::not_supported, "'detachable' turns are not there yet"};
  return request;
}

}  // namespace roost::agent
