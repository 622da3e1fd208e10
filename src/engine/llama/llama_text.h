// TextModel over libllama's vocabulary and libcommon's templates, parsers and samplers.
#pragma once

#include <memory>
#include <string>

#include "engine/text_model.h"

struct llama_context;
struct llama_model;

namespace roost::engine {

struct LlamaTextOptions {
  std::string path;
  std::string alias;               // empty = the file's name
  std::string chat_template_file;  // empty = the model's own
};

// Both pointers must outlive it; `context` is only handed to samplers. Error bad_config: the template cannot be read or
// parsed.
Result<std::unique_ptr<TextModel>> make_llama_text(llama_model* model, llama_context* context,
                                                   const LlamaTextOptions& options);

}  // namespace roost::engine
