// How the answer of one route looks: whole, and as the events of a stream. Pure values in and out; the order of a
// stream is first(), any number of piece(), last(), then "[DONE]" where the route has it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/answer_blocks.h"
#include "api/generation_request.h"
#include "core/json.h"
#include "engine/text_model.h"

namespace roost::api {

// What every answer of one request carries.
struct AnswerId {
  std::string id;            // "chatcmpl-..."
  std::int64_t created = 0;  // unix seconds
  std::string model;
  bool include_usage = false;
  bool logprobs = false;
};

class AnswerShape {
 public:
  virtual ~AnswerShape() = default;

  // The whole answer.
  virtual json::object whole(const engine::ChatMessage& message, const std::vector<TokenLogprob>& logprobs,
                             const Outcome& outcome) = 0;
  // Events before the first piece.
  virtual std::vector<json::object> first() = 0;
  // One step of the message; `logprobs` of the tokens drawn since the last piece.
  virtual json::object piece(const engine::ChatDelta& delta, const std::vector<TokenLogprob>& logprobs) = 0;
  // The end: finish reason, then usage, timings and opencoti. `logprobs`: what no piece has carried.
  virtual std::vector<json::object> last(bool has_tool_calls, const std::vector<TokenLogprob>& logprobs,
                                         const Outcome& outcome) = 0;
  virtual bool ends_with_done() const = 0;
};

std::unique_ptr<AnswerShape> make_answer_shape(Route route, AnswerId id);

}  // namespace roost::api
