#include "api/chat_request.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/generation_request.h"
#include "core/limits.h"

namespace roost::api {
namespace {

using engine::ChatInput;
using engine::ToolChoice;

Error invalid(std::string message) { return {ErrorKind::invalid_request, std::move(message), {}, {}}; }

Result<void> check_content(const json::object& message, std::size_t i) {
  const json::value* content = message.if_contains("content");
  if (content == nullptr || content->is_null()) {
    if (message.if_contains("tool_calls") != nullptr || content != nullptr) return {};
    return invalid(fmt::format("'messages[{}].content' is required", i));
  }
  if (content->is_string()) return {};
  const auto* parts = content->if_array();
  if (parts == nullptr) return invalid(fmt::format("'messages[{}].content' must be a string or a list of parts", i));
  for (const auto& part : *parts) {
    const auto* object = part.if_object();
    const json::value* type = object != nullptr ? object->if_contains("type") : nullptr;
    const json::value* text = object != nullptr ? object->if_contains("text") : nullptr;
    if (type == nullptr || *type != "text" || text == nullptr || !text->is_string()) {
      return invalid(fmt::format("'messages[{}].content' may hold parts of type \"text\" only", i));
    }
  }
  return {};
}

Result<std::string> read_messages(const ObjectReader& r) {
  ROOST_TRY(messages, r.array("messages"));
  if (messages == nullptr || messages->empty()) {
    return {ErrorKind::prompt_required, "'messages' is required and may not be empty"};
  }
  for (std::size_t i = 0; i < messages->size(); ++i) {
    const auto* message = messages->at(i).if_object();
    if (message == nullptr) return invalid(fmt::format("'messages[{}]' must be an object", i));
    const json::value* role = message->if_contains("role");
    if (role == nullptr || !role->is_string()) return invalid(fmt::format("'messages[{}].role' must be a string", i));
    ROOST_TRY_VOID(check_content(*message, i));
  }
  return json::serialize(*messages);
}

const json::value* name_of_tool(const json::value& tool) {
  const auto* object = tool.if_object();
  const json::value* function = object != nullptr ? object->if_contains("function") : nullptr;
  const auto* inner = function != nullptr ? function->if_object() : nullptr;
  return inner != nullptr ? inner->if_contains("name") : nullptr;
}

Result<void> check_tools(const json::array& tools) {
  if (tools.size() > limits::kToolsPerRequest) {
    return invalid(fmt::format("'tools' has {} entries, at most {}", tools.size(), limits::kToolsPerRequest));
  }
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const json::value* name = name_of_tool(tools[i]);
    if (name == nullptr || !name->is_string() || name->get_string().empty()) {
      return invalid(fmt::format("'tools[{}]' must be {{\"type\":\"function\",\"function\":{{\"name\":...}}}}", i));
    }
    const json::value* parameters = tools[i].at("function").as_object().if_contains("parameters");
    if (parameters != nullptr && !parameters->is_object() && !parameters->is_null()) {
      return invalid(fmt::format("'tools[{}].function.parameters' must be a JSON schema object", i));
    }
  }
  return {};
}

struct Choice {
  ToolChoice choice = ToolChoice::automatic;
  std::string function;  // not empty: this one alone
};

Result<Choice> read_choice(const ObjectReader& r) {
  const json::value* value = r.find("tool_choice");
  if (value == nullptr) return Choice{};
  const Error wrong = invalid(
      "'tool_choice' must be \"auto\", \"none\", \"required\" or {\"type\":\"function\",\"function\":{\"name\":...}}");
  if (value->is_string()) {
    const std::string_view text = value->get_string();
    if (text == "auto") return Choice{};
    if (text == "none") return Choice{ToolChoice::none, {}};
    if (text == "required") return Choice{ToolChoice::required, {}};
    return wrong;
  }
  const json::value* name = name_of_tool(*value);
  if (name == nullptr || !name->is_string() || name->get_string().empty()) return wrong;
  return Choice{ToolChoice::required, std::string(name->get_string())};
}

Result<void> read_tools(const ObjectReader& r, ChatInput& chat) {
  ROOST_TRY(tools, r.array("tools"));
  ROOST_TRY(choice, read_choice(r));
  if (tools == nullptr || tools->empty()) {
    if (choice.choice == ToolChoice::required)
      return invalid("'tool_choice' asks for a call, but there are no 'tools'");
    return {};
  }
  ROOST_TRY_VOID(check_tools(*tools));
  chat.tool_choice = choice.choice;
  chat.tools = json::serialize(*tools);
  if (choice.function.empty()) return {};
  const auto it = std::ranges::find_if(
      *tools, [&](const json::value& t) { return name_of_tool(t)->get_string() == choice.function; });
  if (it == tools->end())
    return invalid(fmt::format("'tool_choice' names '{}', which is not in 'tools'", choice.function));
  chat.only_tool = std::move(choice.function);
  return {};
}

Result<void> read_template_kwargs(const ObjectReader& r, ChatInput& chat) {
  ROOST_TRY(kwargs, r.object("chat_template_kwargs"));
  if (kwargs == nullptr) return {};
  for (const auto& member : *kwargs) {
    if (member.key() == "enable_thinking" && !member.value().is_bool()) {
      return invalid("'chat_template_kwargs.enable_thinking' must be a boolean");
    }
    chat.template_kwargs.emplace_back(std::string(member.key()), json::serialize(member.value()));
  }
  return {};
}

// An absent or empty schema means any object.
std::string schema_text(const json::object* schema) {
  return schema == nullptr || schema->empty() ? R"({"type":"object"})" : json::serialize(*schema);
}

Result<std::string> read_response_format(const json::object& format) {
  const ObjectReader r(format, "response_format");
  ROOST_TRY(type, r.string("type"));
  if (!type || *type == "text") return std::string{};
  if (*type == "json_object") {
    ROOST_TRY(schema, r.object("schema"));
    return schema_text(schema);
  }
  if (*type == "json_schema") {
    ROOST_TRY(wrapper, r.object("json_schema"));
    if (wrapper == nullptr) return invalid("'response_format.json_schema' is required");
    ROOST_TRY(schema, ObjectReader(*wrapper, "response_format.json_schema").object("schema"));
    return schema_text(schema);
  }
  return invalid(fmt::format("'response_format.type' is '{}', must be text, json_object or json_schema", *type));
}

}  // namespace

Result<std::string> parse_schema(const json::object& body) {
  const ObjectReader r(body);
  ROOST_TRY(schema, r.object("json_schema"));
  ROOST_TRY(format, r.object("response_format"));
  if (format != nullptr) {
    ROOST_TRY(text, read_response_format(*format));
    if (!text.empty() && schema != nullptr) return invalid("'json_schema' and 'response_format' exclude each other");
    if (!text.empty()) return text;
  }
  return schema == nullptr ? std::string{} : schema_text(schema);
}

bool names_one_function(const json::object& body) {
  const json::value* choice = body.if_contains("tool_choice");
  return choice != nullptr && choice->is_object();
}

Result<ChatInput> parse_chat(const json::object& body) {
  const ObjectReader r(body);
  ChatInput chat;
  ROOST_TRY(messages, read_messages(r));
  chat.messages = std::move(messages);
  ROOST_TRY_VOID(read_tools(r, chat));
  ROOST_TRY(schema, parse_schema(body));
  chat.json_schema = std::move(schema);
  ROOST_TRY_VOID(read_template_kwargs(r, chat));
  ROOST_TRY(parallel, r.boolean("parallel_tool_calls"));
  chat.parallel_tool_calls = parallel.value_or(false);
  ROOST_TRY(prompt, r.boolean("add_generation_prompt"));
  chat.add_generation_prompt = prompt.value_or(true);
  return chat;
}

}  // namespace roost::api
