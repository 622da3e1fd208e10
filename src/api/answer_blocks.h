// The blocks that answers of every route share: timings, usage, opencoti, log-probabilities. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "engine/events.h"
#include "engine/sampler.h"

namespace roost::api {

// What one request turned out to be, from its events; tokens already as text.
struct Outcome {
  engine::Admitted admitted;
  std::string pool_token_text, prompt_token_text;  // of admitted.divergence
  engine::Finished finished;
  std::string stop_string;  // the one that ended it; empty = none
};

// One drawn token with its log-probability, tokens as text.
struct TokenLogprob {
  kv::Token token = 0;
  std::string bytes;  // as they are, not always valid UTF-8
  float logprob = 0;
  struct Alternative {
    kv::Token token;
    std::string bytes;
    float logprob;
  };
  std::vector<Alternative> alternatives;
};

// {prompt_n, prompt_ms, prompt_per_second, predicted_n, predicted_ms, predicted_per_second, cache_n, draft_n,
// draft_n_accepted}
json::object timings_block(const engine::Timings& timings);
// {prompt_tokens, completion_tokens, total_tokens, prompt_tokens_details{cached_tokens}}
json::object usage_block(const Outcome& outcome);
// {pool_id, n_pool_shared, pool_match, pool_len, pool_unknown, ctx_used, ctx_headroom_tokens, first_divergence?,
// reason?} pool_match: "full" (all of the pool), "partial", "none".
json::object opencoti_block(const Outcome& outcome);

// "stop", "length", "tool_calls".
std::string_view finish_reason(const Outcome& outcome, bool has_tool_calls);

// OpenAI's chat shape: {"content":[{token, logprob, bytes, top_logprobs}]}
json::object chat_logprobs(const std::vector<TokenLogprob>& tokens);
// OpenAI's completions shape: {tokens, token_logprobs, top_logprobs, text_offset}; `offset`: characters before the
// first.
json::object completion_logprobs(const std::vector<TokenLogprob>& tokens, std::size_t offset);

// The members that end every answer: timings, session_tps, opencoti, and truncated with its reason where it was.
void add_outcome(json::object& body, const Outcome& outcome);

}  // namespace roost::api
