#include "api/prepare.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

namespace roost::api {
namespace {

// No token has more bytes than the longest, so a text has at least this many.
Result<void> check_could_fit(const ApiContext& context, std::size_t bytes) {
  const auto longest = static_cast<std::size_t>(std::max(context.text.info().longest_piece_bytes, 1));
  const std::size_t at_least = bytes / longest;
  const auto limit = static_cast<std::size_t>(std::max(context.engine.session_limit(), 0));
  if (at_least <= limit) return {};
  return Error{ErrorKind::exceed_context_size,
               fmt::format("the prompt has at least {} tokens, the context holds {}", at_least, limit),
               {{"n_prompt_tokens", at_least}, {"n_ctx", limit}},
               {}};
}

}  // namespace

RequestLimits request_limits(const ApiContext& context) {
  return {context.text.info().vocabulary_size, context.text.info().training_length};
}

Result<kv::Tokens> tokenize_prompt_text(const ApiContext& context, const std::string& text) {
  ROOST_TRY_VOID(check_could_fit(context, text.size()));
  return context.text.tokenize(text, true, true);
}

Result<kv::Tokens> tokenize_prompt(const ApiContext& context, const std::vector<PromptPart>& parts) {
  kv::Tokens tokens;
  bool first = true;
  for (const PromptPart& part : parts) {
    if (const auto* ids = std::get_if<kv::Tokens>(&part)) {
      tokens.insert(tokens.end(), ids->begin(), ids->end());
    } else {
      const auto& text = std::get<std::string>(part);
      ROOST_TRY_VOID(check_could_fit(context, text.size()));
      ROOST_TRY(more, context.text.tokenize(text, first, true));
      tokens.insert(tokens.end(), more.begin(), more.end());
    }
    first = false;
  }
  return tokens;
}

Result<engine::ChatPrompt> render(const ApiContext& context, engine::ChatInput chat, bool parallel_tool_calls_set) {
  if (!parallel_tool_calls_set) {
    const auto& caps = context.text.info().template_caps;
    const auto it = caps.find("supports_parallel_tool_calls");
    chat.parallel_tool_calls = it != caps.end() && it->second;
  }
  return context.text.render_chat(chat);
}

Result<Prepared> prepare(const ApiContext& context, const GenerationRequest& request) {
  Prepared prepared;
  prepared.stops = request.stops;
  engine::SamplingParams sampling = request.sampling;
  if (request.chat) {
    ROOST_TRY(rendered, render(context, *request.chat, request.parallel_tool_calls_set));
    ROOST_TRY(tokens, tokenize_prompt_text(context, rendered.text));
    prepared.prompt = std::move(tokens);
    prepared.syntax = std::move(rendered.syntax);
    std::ranges::move(rendered.stops, std::back_inserter(prepared.stops));
  } else {
    ROOST_TRY(tokens, tokenize_prompt(context, request.prompt));
    prepared.prompt = std::move(tokens);
    if (!request.json_schema.empty()) {
      ROOST_TRY(grammar, context.text.schema_grammar(request.json_schema));
      sampling.grammar = std::move(grammar);
    }
  }
  if (prepared.prompt.empty()) return {ErrorKind::prompt_required, "the prompt has no tokens"};
  ROOST_TRY(sampler, context.text.make_sampler(sampling, prepared.syntax.get()));
  prepared.sampler = std::move(sampler);
  return prepared;
}

}  // namespace roost::api
