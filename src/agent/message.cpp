#include "agent/message.h"

#include <fmt/format.h>

#include <algorithm>

namespace roost::agent {
namespace {

constexpr std::string_view kInterrupted =
    "The turn ended before this call's result was recorded; it may have run in part or in full.";

Result<Role> role_named(std::string_view name) {
  for (const Role role : {Role::system, Role::user, Role::assistant, Role::tool}) {
    if (to_string(role) == name) return role;
  }
  return {ErrorKind::internal, fmt::format("a logged message has the unknown role '{}'", name)};
}

json::array calls_to_json(const std::vector<ToolCall>& calls) {
  json::array out;
  for (const ToolCall& call : calls) {
    out.push_back(json::object{{"id", call.id},
                               {"type", "function"},
                               {"function", json::object{{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return out;
}

Result<ToolCall> call_from_json(const json::value& value) {
  if (!value.is_object()) return {ErrorKind::internal, "a logged tool call is not an object"};
  const ObjectReader reader(value.get_object());
  ROOST_TRY(function, reader.object("function"));
  ROOST_TRY(id, reader.string("id"));
  if (function == nullptr) return {ErrorKind::internal, "a logged tool call names no function"};
  const ObjectReader inner(*function);
  ROOST_TRY(name, inner.string("name"));
  ROOST_TRY(arguments, inner.string("arguments"));
  return ToolCall{std::move(id).value_or(""), std::move(name).value_or(""), std::move(arguments).value_or("")};
}

}  // namespace

std::string_view to_string(Role role) {
  switch (role) {
    case Role::system:
      return "system";
    case Role::user:
      return "user";
    case Role::assistant:
      return "assistant";
    case Role::tool:
      return "tool";
  }
  return "user";
}

json::object to_openai(const Message& message) {
  json::object out{{"role", to_string(message.role)}, {"content", message.content}};
  if (!message.tool_calls.empty()) {
    if (message.content.empty()) out["content"] = nullptr;
    out["tool_calls"] = calls_to_json(message.tool_calls);
  }
  if (message.role == Role::tool) out["tool_call_id"] = message.tool_call_id;
  return out;
}

std::string to_log(const Message& message) {
  json::object out = to_openai(message);
  if (message.is_error) out["is_error"] = true;
  return json::serialize(out);
}

Result<Message> from_log(std::string_view text) {
  ROOST_TRY(object, parse_json_object(text));
  const ObjectReader reader(object);
  Message message;
  ROOST_TRY(role, reader.string("role"));
  ROOST_TRY(known, role_named(role.value_or("")));
  message.role = known;
  ROOST_TRY(content, reader.string("content"));
  message.content = std::move(content).value_or("");
  ROOST_TRY(id, reader.string("tool_call_id"));
  message.tool_call_id = std::move(id).value_or("");
  ROOST_TRY(is_error, reader.boolean("is_error"));
  message.is_error = is_error.value_or(false);
  ROOST_TRY(calls, reader.array("tool_calls"));
  if (calls == nullptr) return message;
  for (const json::value& value : *calls) {
    ROOST_TRY(call, call_from_json(value));
    message.tool_calls.push_back(std::move(call));
  }
  return message;
}

std::vector<Message> repaired(std::vector<Message> history) {
  std::vector<Message> out;
  out.reserve(history.size());
  const auto is_user = [](const Message& m) { return m.role == Role::user; };
  for (std::size_t i = 0; i < history.size();) {
    Message& message = history[i++];
    if (message.role == Role::tool) continue;  // results are taken together with their call, below
    // A new prompt after an unanswered one: the older was never answered.
    if (is_user(message) && !out.empty() && is_user(out.back())) out.pop_back();
    const std::vector<ToolCall> calls = message.tool_calls;
    out.push_back(std::move(message));
    if (calls.empty()) continue;
    const std::size_t first = i;
    while (i < history.size() && history[i].role == Role::tool) ++i;
    for (const ToolCall& call : calls) {
      const auto begin = history.begin() + static_cast<std::ptrdiff_t>(first);
      const auto end = history.begin() + static_cast<std::ptrdiff_t>(i);
      const auto found = std::find_if(begin, end, [&](const Message& m) { return m.tool_call_id == call.id; });
      Message missing{Role::tool, std::string(kInterrupted), {}, call.id, true};
      out.push_back(found == end ? std::move(missing) : *found);
    }
  }
  while (!out.empty() && is_user(out.back())) out.pop_back();
  return out;
}

}  // namespace roost::agent
