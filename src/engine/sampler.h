// Sampling of one request: parameters as asked for, and the object that draws tokens. Made on an I/O thread (grammar
// compilation is string work), then owned and used by the engine thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/result.h"
#include "kv/types.h"

namespace roost::engine {

struct SamplingParams {
  float temperature = 0.8F;     // 0 = greedy
  std::int32_t top_k = 40;      // 0 = off
  float top_p = 0.95F;          // 1 = off
  float min_p = 0.05F;          // 0 = off
  float typical_p = 1.0F;       // 1 = off
  float repeat_penalty = 1.0F;  // 1 = off
  std::int32_t repeat_last_n = 64;
  float presence_penalty = 0.0F;
  float frequency_penalty = 0.0F;
  std::uint32_t seed = 0xFFFFFFFFU;  // this value = random
  std::vector<std::pair<kv::Token, float>> logit_bias;
  bool ignore_eos = false;
  std::string grammar;        // GBNF, empty = none
  bool grammar_lazy = false;  // starts at a trigger
  std::int32_t n_probs = 0;   // log-probabilities of this many alternatives per token; 0 = only if want_logprob
  bool want_logprob = false;
};

struct TokenProb {
  kv::Token token;
  float logprob;
};

// One drawn token.
struct Drawn {
  kv::Token token = 0;
  float logprob = 0.0F;                 // natural log; only when asked for
  std::vector<TokenProb> alternatives;  // most likely first; n_probs of them
};

class Sampler {
 public:
  virtual ~Sampler() = default;
  // Draws from the logits of batch position `index` of the last decode, and accepts the token.
  virtual Drawn draw(std::int32_t index) = 0;
  // The prompt's tokens, for the penalties; called once before the first draw.
  virtual void accept_prompt(const kv::Tokens& prompt) = 0;
};

}  // namespace roost::engine
