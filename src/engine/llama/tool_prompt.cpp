#include "engine/llama/tool_prompt.h"

namespace roost::engine {
namespace {

std::string_view text_member(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string_view(value->get_string()) : std::string_view{};
}

// A string, or the text parts of a list, one after the other.
std::string content_text(const json::object& message) {
  const json::value* content = message.if_contains("content");
  if (content == nullptr) return {};
  if (content->is_string()) return std::string(content->get_string());
  std::string text;
  if (const auto* parts = content->if_array()) {
    for (const auto& part : *parts) {
      if (const auto* object = part.if_object()) text += text_member(*object, "text");
    }
  }
  return text;
}

std::string describe(const json::array& tools) {
  std::string text =
      "You may call one or more functions to help with the task. Their signatures are between "
      "<tools></tools>:\n<tools>\n";
  for (const auto& tool : tools) text += json::serialize(tool) + "\n";
  text += "</tools>\nFor each call, write a JSON object with its name and arguments:\n";
  text += std::string(kToolCallOpen) + "\n{\"name\": <function name>, \"arguments\": <arguments object>}\n" +
          std::string(kToolCallClose);
  return text;
}

// One call of an assistant's message. OpenAI has the arguments as a string of JSON.
std::string call_text(const json::value& call) {
  const auto* object = call.if_object();
  const json::value* function = object != nullptr ? object->if_contains("function") : nullptr;
  const auto* inner = function != nullptr ? function->if_object() : nullptr;
  if (inner == nullptr) return {};
  const json::value* arguments = inner->if_contains("arguments");
  std::string shown = "{}";
  if (arguments != nullptr && arguments->is_string()) {
    shown = std::string(arguments->get_string());
  } else if (arguments != nullptr) {
    shown = json::serialize(*arguments);
  }
  return std::string(kToolCallOpen) + "\n{\"name\": " + json::serialize(json::value(text_member(*inner, "name"))) +
         ", \"arguments\": " + shown + "}\n" + std::string(kToolCallClose);
}

std::string assistant_text(const json::object& message) {
  std::string text = content_text(message);
  const json::value* calls = message.if_contains("tool_calls");
  if (calls == nullptr || !calls->is_array()) return text;
  for (const auto& call : calls->get_array()) {
    if (!text.empty()) text += "\n";
    text += call_text(call);
  }
  return text;
}

void append(json::array& messages, std::string_view role, const std::string& text) {
  if (role == "user" && !messages.empty() && messages.back().at("role") == "user") {
    json::string& before = messages.back().as_object()["content"].as_string();
    before += "\n";
    before += text;
    return;
  }
  messages.push_back(json::object{{"role", role}, {"content", text}});
}

}  // namespace

bool mentions_tools(const json::array& messages) {
  for (const auto& m : messages) {
    const auto* message = m.if_object();
    if (message == nullptr) continue;
    if (text_member(*message, "role") == "tool" || message->contains("tool_calls")) return true;
  }
  return false;
}

json::array describe_tools(const json::array& messages, const json::array& tools) {
  json::array plain;
  bool described = tools.empty();
  const auto* first = messages.empty() ? nullptr : messages.front().if_object();
  const bool has_system =
      first != nullptr && (text_member(*first, "role") == "system" || text_member(*first, "role") == "developer");
  if (!described && !has_system) append(plain, "system", describe(tools));
  described = described || !has_system;
  for (const auto& m : messages) {
    const auto* message = m.if_object();
    if (message == nullptr) continue;
    const std::string_view role = text_member(*message, "role");
    if (role == "tool") {
      append(plain, "user", "<tool_response>\n" + content_text(*message) + "\n</tool_response>");
    } else if (role == "assistant") {
      append(plain, role, assistant_text(*message));
    } else if (!described) {
      append(plain, role, content_text(*message) + "\n\n" + describe(tools));
      described = true;
    } else {
      append(plain, role, content_text(*message));
    }
  }
  return plain;
}

}  // namespace roost::engine
