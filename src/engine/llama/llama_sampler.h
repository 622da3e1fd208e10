// Sampler over libcommon's. Made on an I/O thread, drawn from on the engine thread.
#pragma once

#include <common.h>

#include <memory>
#include <vector>

#include "core/result.h"
#include "engine/sampler.h"

struct llama_context;
struct llama_model;

namespace roost::engine {

// The constraint that a chat template put on its output.
struct TemplateGrammar {
  std::string grammar;
  bool lazy = false;
  std::vector<common_grammar_trigger> triggers;
  std::string generation_prompt;
};

// `end_tokens`: the vocabulary's end-of-generation tokens. `from_template` may be null. `context` must outlive the
// sampler and is read in draw() only.
Result<std::unique_ptr<Sampler>> make_llama_sampler(llama_model* model, llama_context* context,
                                                    const std::vector<kv::Token>& end_tokens,
                                                    const SamplingParams& params, const TemplateGrammar* from_template);

}  // namespace roost::engine
