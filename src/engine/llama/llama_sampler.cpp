#include "engine/llama/llama_sampler.h"

#include <fmt/format.h>
#include <llama.h>
#include <sampling.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/log.h"
#include "engine/llama/grammar_check.h"
#include "engine/llama/llama_log.h"

namespace roost::engine {
namespace {

// Log-probabilities of the model's own distribution (before any sampler) of `drawn` and its `n` most likely
// alternatives.
void add_logprobs(const float* logits, std::int32_t n_vocab, std::int32_t n, Drawn& drawn) {
  const float top = *std::max_element(logits, logits + n_vocab);
  double sum = 0;
  for (std::int32_t i = 0; i < n_vocab; ++i) sum += std::exp(static_cast<double>(logits[i] - top));
  const auto log_sum = static_cast<float>(std::log(sum)) + top;
  drawn.logprob = logits[drawn.token] - log_sum;
  if (n <= 0) return;
  std::vector<kv::Token> order(static_cast<std::size_t>(n_vocab));
  std::iota(order.begin(), order.end(), 0);
  const auto end = order.begin() + std::min(n, n_vocab);
  std::partial_sort(order.begin(), end, order.end(),
                    [&](kv::Token a, kv::Token b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  for (auto it = order.begin(); it != end; ++it) drawn.alternatives.push_back({*it, logits[*it] - log_sum});
}

class LlamaSampler final : public Sampler {
 public:
  LlamaSampler(llama_context* context, common_sampler_ptr sampler, const SamplingParams& params, bool greedy,
               kv::Token end_token)
      : context_(context),
        sampler_(std::move(sampler)),
        n_vocab_(llama_vocab_n_tokens(llama_model_get_vocab(llama_get_model(context)))),
        n_probs_(params.n_probs),
        want_logprob_(params.want_logprob || params.n_probs > 0),
        penalty_tokens_(params.repeat_last_n),
        greedy_(greedy),
        end_token_(end_token) {}

  Drawn draw(std::int32_t index) override {
    Drawn drawn;
    const float* logits = llama_get_logits_ith(context_, index);
    ROOST_CHECK(logits != nullptr, "logits were not asked for at this batch position");
    drawn.token = choose(index, logits);
    if (want_logprob_) add_logprobs(logits, n_vocab_, n_probs_, drawn);
    return drawn;
  }

  void accept_prompt(const kv::Tokens& prompt) override {
    if (greedy_ || penalty_tokens_ <= 0) return;
    const auto wanted = static_cast<std::size_t>(penalty_tokens_);
    const std::size_t from = prompt.size() > wanted ? prompt.size() - wanted : 0;
    for (std::size_t i = from; i < prompt.size(); ++i) common_sampler_accept(sampler_.get(), prompt[i], false);
  }

 private:
  // libcommon throws where a grammar meets a token that it cannot follow (after its end, or in a grammar with no way
  // on). The generation ends there: the text so far is what the grammar allowed.
  kv::Token choose(std::int32_t index, const float* logits) {
    if (ended_) return end_token_;
    // The plain greedy case, without a copy of the logits: the same token as the sampler chain would give.
    if (greedy_) return static_cast<kv::Token>(std::max_element(logits, logits + n_vocab_) - logits);
    try {
      const llama_token token = common_sampler_sample(sampler_.get(), context_, index);
      common_sampler_accept(sampler_.get(), token, true);
      return token;
    } catch (const std::exception&) {
      log::warn("grammar_ended", {});
      ended_ = true;
      return end_token_;
    }
  }

  llama_context* context_;
  common_sampler_ptr sampler_;
  std::int32_t n_vocab_;
  std::int32_t n_probs_;
  bool want_logprob_;
  std::int32_t penalty_tokens_;
  bool greedy_;
  kv::Token end_token_;
  bool ended_ = false;
};

common_params_sampling to_common(const SamplingParams& p, const std::vector<kv::Token>& end_tokens) {
  common_params_sampling c;
  c.seed = p.seed;
  c.temp = p.temperature;
  c.top_k = p.top_k;
  c.top_p = p.top_p;
  c.min_p = p.min_p;
  c.typ_p = p.typical_p;
  c.penalty_repeat = p.repeat_penalty;
  c.penalty_last_n = p.repeat_last_n;
  c.penalty_present = p.presence_penalty;
  c.penalty_freq = p.frequency_penalty;
  c.n_prev = std::max(p.repeat_last_n, 32);
  c.no_perf = true;
  for (const auto& [token, bias] : p.logit_bias) c.logit_bias.push_back({token, bias});
  if (p.ignore_eos) {
    for (const kv::Token t : end_tokens) c.logit_bias.push_back({t, -std::numeric_limits<float>::infinity()});
  }
  return c;
}

bool is_plain_greedy(const SamplingParams& p, const common_params_sampling& c, const llama_vocab* vocab) {
  std::int32_t suppressed = 0;
  llama_vocab_get_suppress_tokens(vocab, &suppressed);
  return p.temperature <= 0 && c.grammar.empty() && c.logit_bias.empty() && suppressed == 0 &&
         p.repeat_penalty == 1.0F && p.presence_penalty == 0 && p.frequency_penalty == 0;
}

}  // namespace

Result<std::unique_ptr<Sampler>> make_llama_sampler(llama_model* model, llama_context* context,
                                                    const std::vector<kv::Token>& end_tokens,
                                                    const SamplingParams& params,
                                                    const TemplateGrammar* from_template) {
  common_params_sampling common = to_common(params, end_tokens);
  const llama_vocab* vocab = llama_model_get_vocab(model);
  try {
    if (!params.grammar.empty()) {
      ROOST_TRY_VOID(check_grammar(params.grammar));
      common.grammar = common_grammar(COMMON_GRAMMAR_TYPE_USER, params.grammar);
    } else if (from_template != nullptr && !from_template->grammar.empty()) {
      common.grammar = common_grammar(COMMON_GRAMMAR_TYPE_TOOL_CALLS, from_template->grammar);
      common.grammar_lazy = from_template->lazy;
      common.grammar_triggers = from_template->triggers;
      common.generation_prompt = from_template->generation_prompt;
    }
    const bool greedy = is_plain_greedy(params, common, vocab);
    common_sampler_ptr sampler;
    if (!greedy) sampler.reset(common_sampler_init(model, common));
    const kv::Token end = end_tokens.empty() ? 0 : end_tokens.front();
    std::unique_ptr<Sampler> made = std::make_unique<LlamaSampler>(context, std::move(sampler), params, greedy, end);
    return made;
  } catch (const std::exception& e) {
    const std::string detail = take_llama_errors();
    return {ErrorKind::invalid_request, fmt::format("the grammar or a sampling field is not usable: {}{}{}", e.what(),
                                                    detail.empty() ? "" : ": ", detail)};
  }
}

}  // namespace roost::engine
