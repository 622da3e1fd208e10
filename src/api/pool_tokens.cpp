#include "api/pool_tokens.h"

#include <algorithm>
#include <utility>

#include "api/prepare.h"

namespace roost::api {
namespace {

// Two turns that share no first token in any vocabulary worth the name.
constexpr std::string_view kTurnA = "Q";
constexpr std::string_view kTurnB = "7 x";

// After a user's turn most templates demand the assistant's.
std::string_view next_role(const json::array& messages) {
  const auto* last = messages.empty() ? nullptr : messages.back().if_object();
  const json::value* role = last != nullptr ? last->if_contains("role") : nullptr;
  return role != nullptr && *role == "user" ? "assistant" : "user";
}

Result<kv::Tokens> render_with(const ApiContext& context, engine::ChatInput chat, json::array messages,
                               std::string_view text) {
  const std::string_view role = next_role(messages);
  messages.push_back(json::object{{"role", role}, {"content", text}});
  chat.messages = json::serialize(messages);
  chat.add_generation_prompt = false;
  ROOST_TRY(prompt, render(context, std::move(chat), true));
  return tokenize_prompt_text(context, prompt.text);
}

Result<kv::Tokens> text_tokens(const ApiContext& context, const std::string& text, bool is_suffix) {
  return is_suffix ? context.text.tokenize(text, false, true) : tokenize_prompt_text(context, text);
}

}  // namespace

Result<kv::Tokens> conversation_prefix(const ApiContext& context, const engine::ChatInput& chat) {
  ROOST_TRY(parsed, parse_json(chat.messages));
  const json::array& messages = parsed.as_array();
  ROOST_TRY(a, render_with(context, chat, messages, kTurnA));
  ROOST_TRY(b, render_with(context, chat, messages, kTurnB));
  const auto [end, unused] = std::ranges::mismatch(a, b);
  a.erase(end, a.end());
  return a;
}

Result<engine::PoolSource> pool_source(const ApiContext& context, const PoolRequest& request) {
  if (const auto* session = std::get_if<FromSession>(&request.origin)) return engine::PoolSource{session->session_id};
  if (const auto* slot = std::get_if<FromSlot>(&request.origin)) return engine::PoolSource{slot->slot};
  kv::Tokens tokens;
  if (const auto* given = std::get_if<kv::Tokens>(&request.origin)) {
    tokens = *given;
  } else if (const auto* text = std::get_if<PromptText>(&request.origin)) {
    ROOST_TRY(made, text_tokens(context, text->text, request.is_suffix));
    tokens = std::move(made);
  } else {
    ROOST_TRY(made, conversation_prefix(context, std::get<engine::ChatInput>(request.origin)));
    tokens = std::move(made);
  }
  if (tokens.empty()) return {ErrorKind::prompt_required, "the pool's source has no tokens"};
  return engine::PoolSource{std::move(tokens)};
}

}  // namespace roost::api
