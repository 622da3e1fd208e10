// From a checked request to what the engine needs: the one place where prompts are rendered and tokenized and samplers
// made. /apply-template and chat go through the same code, so that they give the same prompt.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/context.h"
#include "api/generation_request.h"

namespace roost::api {

struct Prepared {
  kv::Tokens prompt;
  std::vector<std::string> stops;
  std::shared_ptr<const engine::ChatSyntax> syntax;  // null: plain text
  std::unique_ptr<engine::Sampler> sampler;
};

Result<Prepared> prepare(const ApiContext& context, const GenerationRequest& request);

// A conversation as the chat route renders it; fills in what the template decides.
Result<engine::ChatPrompt> render(const ApiContext& context, engine::ChatInput chat, bool parallel_tool_calls_set);

// A prompt's parts as tokens; begin tokens where the model wants them. Errors: exceed_context_size for a text that
// cannot fit whatever its tokens are, before it is tokenized.
Result<kv::Tokens> tokenize_prompt(const ApiContext& context, const std::vector<PromptPart>& parts);
Result<kv::Tokens> tokenize_prompt_text(const ApiContext& context, const std::string& text);

RequestLimits request_limits(const ApiContext& context);

}  // namespace roost::api
