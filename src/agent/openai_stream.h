// Assembles one reply from the chunks of an OpenAI chat completion stream. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "agent/model_client.h"
#include "core/result.h"

namespace roost::agent {

inline constexpr std::size_t kReplyBytes = 4 * 1024 * 1024;  // text and arguments of one reply; a longer one is refused

class OpenAiStream {
 public:
  // One `data:` payload. Returns the text it added (often empty). An error frame is Error with the kind it names; a
  // chunk that makes no sense is model_error.
  Result<std::string> feed(std::string_view data);

  // Did the server say that the reply is complete ("[DONE]" or a finish reason)?
  bool complete() const { return done_ || !reply_.finish_reason.empty(); }
  bool done() const { return done_; }
  // The reply; calls without an id get one.
  ModelReply take();

 private:
  Result<std::string> take_choice(const json::object& choice);
  Result<void> take_tool_calls(const json::array& deltas);
  void take_usage(const json::object& chunk);
  void take_engine(const json::object& chunk);

  ModelReply reply_;
  std::size_t bytes_ = 0;
  bool done_ = false;
};

// The error object of a response body or frame: {"error": {message, error_kind?, ...}} or {"error": "text"}. `status`
// is the HTTP status (0 = inside a stream), `retry_after` its header's value in seconds.
Error model_tier_error(int status, std::string_view body, std::optional<int> retry_after);

}  // namespace roost::agent
