// A generation request of any route as one checked value. Every number has a range; what is out of it is an Error
// invalid_request that names the field. Unknown fields are ignored. Pure: nothing is tokenized or rendered here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/json.h"
#include "core/result.h"
#include "engine/sampler.h"
#include "engine/text_model.h"
#include "kv/types.h"

namespace roost::api {

enum class Route { chat, completion, native };

// A text (special tokens parsed) or tokens; a prompt is a list of them.
using PromptPart = std::variant<std::string, kv::Tokens>;

struct StreamOptions {
  bool stream = false;
  bool include_usage = false;
  bool keepalive = false;       // open at once, name the phase
  double ping_interval_s = 10;  // comment lines after this much silence; 0 = none
};

struct GenerationRequest {
  Route route = Route::chat;
  std::optional<engine::ChatInput> chat;  // of the chat route
  bool parallel_tool_calls_set = false;   // else the template decides
  std::vector<PromptPart> prompt;         // of the others
  std::string json_schema;                // of the others; the chat route has it in `chat`
  engine::SamplingParams sampling;        // grammar: only the asker's own
  std::vector<std::string> stops;
  std::optional<std::int32_t> max_tokens;  // empty = as long as there is room
  StreamOptions stream;
  bool logprobs = false;
  std::string session_id, cache_salt;  // empty = none
  std::optional<kv::PoolId> pool_id;
  bool pool_strict = false;
  std::optional<std::int32_t> shared_prefix_n_tokens;
  std::optional<kv::SeqId> id_slot;
  bool cache_prompt = true;
};

// What a request is checked against.
struct RequestLimits {
  std::int32_t vocabulary_size = 0;
  std::int32_t training_length = 0;
};

Result<GenerationRequest> parse_generation(Route route, const json::object& body, const RequestLimits& limits);

// Pieces that other routes share.

// `field` as a prompt: a string, a list of token ids, or a list of strings and ids. Error prompt_required when missing
// or empty.
Result<std::vector<PromptPart>> parse_prompt(const json::object& body, std::string_view field,
                                             std::int32_t vocabulary_size);
// Token ids inside [0, vocabulary_size).
Result<kv::Tokens> parse_tokens(const json::array& array, std::string_view field, std::int32_t vocabulary_size);
// messages, tools, tool_choice, response_format, json_schema, chat_template_kwargs of a chat body.
Result<engine::ChatInput> parse_chat(const json::object& body);
// 1 to kSessionIdMax bytes without control characters; empty when missing.
Result<std::string> parse_session_id(const json::object& body, std::string_view field);

}  // namespace roost::api
