#include "agent/openai_stream.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/ids.h"
#include "core/limits.h"
#include "core/utf8.h"

namespace roost::agent {
namespace {

constexpr std::size_t kMessageBytes = 512;  // of the model tier's words that are passed on

const json::object* object_member(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value == nullptr ? nullptr : value->if_object();
}

std::string_view string_member(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  const json::string* text = value == nullptr ? nullptr : value->if_string();
  return text == nullptr ? std::string_view{} : std::string_view(*text);
}

// A count; anything else is 0.
std::int64_t count_member(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_number()) return 0;
  boost::system::error_code ec;
  const auto n = value->to_number<std::int64_t>(ec);
  return ec ? 0 : n;
}

double number_member(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_number() ? value->to_number<double>() : 0.0;
}

Error nonsense(std::string_view what) {
  return {ErrorKind::model_error, fmt::format("the model tier's answer makes no sense: {}", what), {}, {}};
}

// The kinds of a Roost engine's refusals that are the turn's own business.
bool passes_through(const ErrorKindInfo& kind) {
  if (kind.kind == ErrorKind::cancelled || kind.kind == ErrorKind::internal) return false;
  return (kind.status >= 400 && kind.status < 500 && kind.status != 401 && kind.status != 405) || kind.status == 501;
}

// Refusals that pass are the model tier's state; everything else is an answer that this turn cannot use.
ErrorKind kind_of_status(int status) {
  const bool passes = status == 429 || status == 502 || status == 503 || status == 504;
  return passes ? ErrorKind::model_unavailable : ErrorKind::model_error;
}

}  // namespace

Error model_tier_error(int status, std::string_view body, std::optional<int> retry_after) {
  std::string message;
  ErrorKind kind = kind_of_status(status);
  if (auto parsed = parse_json_object(body); parsed.ok()) {
    if (const json::object* error = object_member(*parsed, "error")) {
      message = string_member(*error, "message");
      const std::string_view named = string_member(*error, "error_kind");
      const auto all = error_kinds();
      const auto found = std::ranges::find(all, named, &ErrorKindInfo::name);
      if (found != all.end() && passes_through(*found)) kind = found->kind;
      if (status == 0 && found != all.end() && found->status == 503) kind = ErrorKind::model_unavailable;
    } else {
      message = string_member(*parsed, "error");
    }
  }
  if (message.empty()) message = to_valid_utf8(body.substr(0, kMessageBytes));
  std::string text = status == 0 ? std::string("the model tier ended the reply with an error")
                                 : fmt::format("the model tier answered {}", status);
  if (!message.empty()) text += fmt::format(": {}", utf8_prefix(message, kMessageBytes));
  return {kind, std::move(text), {}, retry_after};
}

Result<std::string> OpenAiStream::feed(std::string_view data) {
  if (data == "[DONE]") {
    done_ = true;
    return std::string();
  }
  auto parsed = parse_json(data);
  if (!parsed.ok()) return nonsense(parsed.error().message);
  const json::object* chunk = parsed->if_object();
  if (chunk == nullptr) return nonsense("a chunk is not an object");
  if (const json::value* error = chunk->if_contains("error"); error != nullptr && !error->is_null()) {
    return model_tier_error(0, data, std::nullopt);
  }
  take_usage(*chunk);
  take_engine(*chunk);
  const json::value* choices = chunk->if_contains("choices");
  if (choices == nullptr || !choices->is_array() || choices->get_array().empty()) return std::string();
  const json::object* choice = choices->get_array().front().if_object();
  if (choice == nullptr) return nonsense("a choice is not an object");
  return take_choice(*choice);
}

Result<std::string> OpenAiStream::take_choice(const json::object& choice) {
  if (const auto reason = string_member(choice, "finish_reason"); !reason.empty()) reply_.finish_reason = reason;
  // A server that ignores stream:true sends the whole message instead of deltas.
  const json::object* delta = object_member(choice, "delta");
  if (delta == nullptr) delta = object_member(choice, "message");
  if (delta == nullptr) return std::string();
  if (const json::value* calls = delta->if_contains("tool_calls"); calls != nullptr && calls->is_array()) {
    ROOST_TRY_VOID(take_tool_calls(calls->get_array()));
  }
  std::string text(string_member(*delta, "content"));
  bytes_ += text.size();
  if (bytes_ > kReplyBytes) return nonsense("the reply is longer than 4 MiB");
  reply_.text += text;
  return text;
}

Result<void> OpenAiStream::take_tool_calls(const json::array& deltas) {
  for (std::size_t i = 0; i < deltas.size(); ++i) {
    const json::object* delta = deltas[i].if_object();
    if (delta == nullptr) return nonsense("a tool call is not an object");
    const bool has_index = delta->contains("index");
    const auto index = has_index ? count_member(*delta, "index") : static_cast<std::int64_t>(i);
    if (index < 0 || index >= static_cast<std::int64_t>(limits::kToolCallsPerReply)) {
      return nonsense(fmt::format("tool call {} (at most {} a reply)", index, limits::kToolCallsPerReply));
    }
    const auto at = static_cast<std::size_t>(index);
    if (at >= reply_.tool_calls.size()) reply_.tool_calls.resize(at + 1);
    ToolCall& call = reply_.tool_calls[at];
    if (const auto id = string_member(*delta, "id"); !id.empty()) call.id = id;
    const json::object* function = object_member(*delta, "function");
    if (function == nullptr) continue;
    const auto name = string_member(*function, "name");
    // The name comes once, whole; some servers repeat it in each delta.
    if (!name.empty()) call.name = name;
    const auto arguments = string_member(*function, "arguments");
    bytes_ += arguments.size();
    if (bytes_ > kReplyBytes) return nonsense("the reply is longer than 4 MiB");
    call.arguments += arguments;
  }
  return {};
}

void OpenAiStream::take_usage(const json::object& chunk) {
  const json::object* usage = object_member(chunk, "usage");
  if (usage == nullptr) return;
  const std::int64_t prompt = count_member(*usage, "prompt_tokens");
  std::int64_t cached = 0;
  if (const json::object* details = object_member(*usage, "prompt_tokens_details")) {
    cached = std::clamp<std::int64_t>(count_member(*details, "cached_tokens"), 0, prompt);
  }
  reply_.usage = {prompt - cached, count_member(*usage, "completion_tokens"), cached, 0};
}

void OpenAiStream::take_engine(const json::object& chunk) {
  const json::object* timings = object_member(chunk, "timings");
  const json::object* own = object_member(chunk, "opencoti");
  if (timings == nullptr && own == nullptr) return;
  if (!reply_.engine) reply_.engine.emplace().calls = 1;
  EngineReport& report = *reply_.engine;
  if (timings != nullptr) {
    report.prompt_n = count_member(*timings, "prompt_n");
    report.cache_n = count_member(*timings, "cache_n");
    report.predicted_n = count_member(*timings, "predicted_n");
    report.predicted_ms = number_member(*timings, "predicted_ms");
  }
  if (own != nullptr) {
    const json::value* pool = own->if_contains("pool_id");
    if (pool != nullptr && pool->is_number()) report.pool_id = count_member(*own, "pool_id");
    report.n_pool_shared = count_member(*own, "n_pool_shared");
  }
}

ModelReply OpenAiStream::take() {
  std::erase_if(reply_.tool_calls, [](const ToolCall& call) { return call.name.empty(); });
  for (ToolCall& call : reply_.tool_calls) {
    if (call.id.empty()) call.id = "call_" + random_hex(12);
  }
  if (reply_.finish_reason.empty()) reply_.finish_reason = "stop";
  return std::move(reply_);
}

}  // namespace roost::agent
