// ModelPort over a llama_context. decode() on the engine thread only.
#pragma once

#include <memory>

#include "engine/model_port.h"

struct llama_context;

namespace roost::engine {

// `context` must outlive the port. A batch of more than llama_n_batch tokens, or with more than `max_outputs` wanted
// logits, is refused as failed (libllama would abort).
std::unique_ptr<ModelPort> make_llama_model_port(llama_context* context, std::int32_t max_outputs);

}  // namespace roost::engine
