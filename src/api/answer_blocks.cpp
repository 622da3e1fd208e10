#include "api/answer_blocks.h"

#include <cmath>

#include "core/utf8.h"

namespace roost::api {
namespace {

double per_second(std::int32_t n, double ms) { return ms > 0 ? n * 1000.0 / ms : 0.0; }

json::array bytes_of(std::string_view text) {
  json::array bytes;
  for (const char c : text) bytes.push_back(static_cast<int>(static_cast<unsigned char>(c)));
  return bytes;
}

// JSON has no infinity; OpenAI's floor for "impossible".
double finite(float logprob) { return std::isfinite(logprob) ? static_cast<double>(logprob) : -9999.0; }

json::object entry(kv::Token id, const std::string& bytes, float logprob) {
  return {{"id", id}, {"token", to_valid_utf8(bytes)}, {"logprob", finite(logprob)}, {"bytes", bytes_of(bytes)}};
}

std::string_view match_name(const engine::Admitted& a) {
  if (a.n_pool_shared <= 0) return "none";
  return a.n_pool_shared >= a.pool_len ? "full" : "partial";
}

}  // namespace

json::object timings_block(const engine::Timings& t) {
  return {{"prompt_n", t.prompt_n},
          {"prompt_ms", t.prompt_ms},
          {"prompt_per_second", per_second(t.prompt_n, t.prompt_ms)},
          {"predicted_n", t.predicted_n},
          {"predicted_ms", t.predicted_ms},
          {"predicted_per_second", per_second(t.predicted_n, t.predicted_ms)},
          {"cache_n", t.cache_n},
          {"draft_n", 0},
          {"draft_n_accepted", 0}};
}

json::object usage_block(const Outcome& outcome) {
  const std::int32_t prompt = outcome.admitted.n_prompt;
  const std::int32_t completion = outcome.finished.timings.predicted_n;
  return {{"prompt_tokens", prompt},
          {"completion_tokens", completion},
          {"total_tokens", prompt + completion},
          {"prompt_tokens_details", json::object{{"cached_tokens", outcome.admitted.n_cached}}}};
}

json::object opencoti_block(const Outcome& outcome) {
  const engine::Admitted& a = outcome.admitted;
  json::object block;
  if (a.pool_id == kv::kNoPool) {
    block["pool_id"] = nullptr;
  } else {
    block["pool_id"] = a.pool_id;
  }
  block["n_pool_shared"] = a.n_pool_shared;
  block["pool_match"] = match_name(a);
  block["pool_len"] = a.pool_len;
  block["pool_unknown"] = a.pool_unknown;
  block["ctx_used"] = outcome.finished.ctx_used;
  block["ctx_headroom_tokens"] = outcome.finished.ctx_headroom;
  if (a.divergence) {
    block["first_divergence"] = json::object{{"index", a.divergence->index},
                                             {"pool_token_text", outcome.pool_token_text},
                                             {"prompt_token_text", outcome.prompt_token_text}};
  }
  if (!a.no_share_reason.empty()) block["reason"] = a.no_share_reason;
  return block;
}

std::string_view finish_reason(const Outcome& outcome, bool has_tool_calls) {
  if (outcome.finished.reason == engine::FinishReason::length) return "length";
  return has_tool_calls ? "tool_calls" : "stop";
}

json::object chat_logprobs(const std::vector<TokenLogprob>& tokens) {
  json::array content;
  for (const TokenLogprob& t : tokens) {
    json::object item = entry(t.token, t.bytes, t.logprob);
    json::array top;
    for (const auto& a : t.alternatives) top.push_back(entry(a.token, a.bytes, a.logprob));
    item["top_logprobs"] = std::move(top);
    content.push_back(std::move(item));
  }
  return {{"content", std::move(content)}};
}

json::object completion_logprobs(const std::vector<TokenLogprob>& tokens, std::size_t offset) {
  json::array texts, logprobs, tops, offsets;
  for (const TokenLogprob& t : tokens) {
    const std::string text = to_valid_utf8(t.bytes);
    texts.push_back(json::value(text));
    logprobs.push_back(finite(t.logprob));
    json::object top;
    for (const auto& a : t.alternatives) top[to_valid_utf8(a.bytes)] = finite(a.logprob);
    tops.push_back(std::move(top));
    offsets.push_back(offset);
    offset += text.size();
  }
  return {{"tokens", std::move(texts)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

void add_outcome(json::object& body, const Outcome& outcome) {
  body["timings"] = timings_block(outcome.finished.timings);
  body["session_tps"] = outcome.finished.timings.tps_ewma;
  body["opencoti"] = opencoti_block(outcome);
  if (outcome.finished.truncated) {
    body["truncated"] = true;
    body["truncated_reason"] = outcome.finished.truncated_reason;
  }
}

}  // namespace roost::api
