// TextModel: everything about the model that is string work: tokens, chat templates, grammars, output parsing,
// samplers. The HTTP layer sees only this; the real one is in llama/, a test may bring its own.
//
// Threads: every method may be called from any thread at once, and none from the engine thread (they are slow). A
// ChatParser belongs to one request. libllama's and libcommon's exceptions end inside and come back as Error
// invalid_request.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"
#include "engine/sampler.h"
#include "kv/types.h"

namespace roost::engine {

// What a model says about itself; constant.
struct ModelInfo {
  std::string name;  // as answers call it
  std::string path;
  std::string description;  // "llama 135M Q4_1"
  std::string vocab_type;   // "bpe", "spm", ...
  std::int32_t vocabulary_size = 0;
  std::int32_t training_length = 0;
  std::int32_t embedding_length = 0;
  std::int32_t longest_piece_bytes = 1;  // of any token
  std::uint64_t parameters = 0;
  std::uint64_t size_bytes = 0;
  std::int32_t swa_window = 0;
  bool recurrent = false;
  std::string chat_template;  // its source
  std::string bos_token, eos_token;
  std::map<std::string, bool> template_caps;
};

enum class ToolChoice { automatic, none, required };

// One conversation to render. JSON members are JSON texts, checked for their outer type by the caller.
struct ChatInput {
  std::string messages;  // array
  std::string tools;     // array; empty = none
  ToolChoice tool_choice = ToolChoice::automatic;
  std::string only_tool;  // the one that may be called; empty = any. The prompt shows all of them
  bool parallel_tool_calls = false;
  std::string json_schema;                                           // object; empty = none
  std::string grammar;                                               // GBNF; empty = none
  std::vector<std::pair<std::string, std::string>> template_kwargs;  // name, JSON text
  bool add_generation_prompt = true;
};

// How the output of one rendered conversation is constrained and read: what the template decided. Opaque.
class ChatSyntax {
 public:
  virtual ~ChatSyntax() = default;
};

struct ChatPrompt {
  std::string text;
  std::vector<std::string> stops;  // that the template adds
  std::shared_ptr<const ChatSyntax> syntax;
};

struct ToolCall {
  std::string id, name, arguments;
};

struct ChatMessage {
  std::string content, reasoning;
  std::vector<ToolCall> tool_calls;
};

// One step of a growing message, in OpenAI's terms.
struct ChatDelta {
  std::string content, reasoning;
  std::int32_t tool_index = -1;  // -1: no tool call in this delta
  ToolCall tool_call;            // id and name only in the first delta of a call; arguments is a piece
};

// Reads a model's output as it grows. A message whose text does not follow the syntax comes back as plain content.
class ChatParser {
 public:
  virtual ~ChatParser() = default;
  // `text` is appended to the output.
  virtual std::vector<ChatDelta> feed(std::string_view text) = 0;
  // The end: what was held back.
  virtual std::vector<ChatDelta> finish() = 0;
  // All of it so far; the sum of the deltas.
  virtual const ChatMessage& message() const = 0;
};

class TextModel {
 public:
  virtual ~TextModel() = default;

  virtual const ModelInfo& info() const = 0;

  // add_special: the model's begin and end tokens where it wants them; parse_special: "<|im_start|>" in the text is one
  // token.
  virtual Result<kv::Tokens> tokenize(std::string_view text, bool add_special, bool parse_special) const = 0;
  // The bytes of a token; not always whole UTF-8 characters. Special tokens are empty unless asked for. The token must
  // be inside the vocabulary.
  virtual std::string piece(kv::Token token, bool special) const = 0;
  virtual bool is_end_of_generation(kv::Token token) const = 0;

  // Errors: invalid_request with the template's reason.
  virtual Result<ChatPrompt> render_chat(const ChatInput& input) const = 0;
  // A JSON schema as GBNF.
  virtual Result<std::string> schema_grammar(const std::string& json_schema) const = 0;
  // `syntax` may be null: the text is the content.
  virtual std::unique_ptr<ChatParser> make_parser(std::shared_ptr<const ChatSyntax> syntax) const = 0;
  // `syntax` brings the grammar of tools and schemas; params.grammar must be empty then. Errors: invalid_request for a
  // bad grammar.
  virtual Result<std::unique_ptr<Sampler>> make_sampler(const SamplingParams& params,
                                                        const ChatSyntax* syntax) const = 0;
  // Special tokens that this syntax writes in its output (they must be rendered as text).
  virtual bool is_visible_special(const ChatSyntax* syntax, kv::Token token) const = 0;
};

}  // namespace roost::engine
