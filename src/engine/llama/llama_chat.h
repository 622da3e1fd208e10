// Chat templates and output parsing by libcommon. libcommon parses the whole output anew at each call, so plain
// conversations (no tools, no thinking) do not go through it: their text is their content.
#pragma once

#include <memory>

#include "core/result.h"
#include "engine/llama/llama_sampler.h"
#include "engine/text_model.h"

struct common_chat_templates;
struct llama_vocab;

namespace roost::engine {

Result<ChatPrompt> render_chat(const common_chat_templates* templates, const llama_vocab* vocab,
                               const ChatInput& input);
std::unique_ptr<ChatParser> make_llama_chat_parser(std::shared_ptr<const ChatSyntax> syntax);

// What a syntax (may be null) brings for the sampler and the detokenizer.
const TemplateGrammar* template_grammar(const ChatSyntax* syntax);
bool is_preserved_token(const ChatSyntax* syntax, kv::Token token);

}  // namespace roost::engine
