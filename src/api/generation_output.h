// GenerationOutput: from the engine's events to what the answer says: text, tool calls, log-probabilities, outcome.
// Holds no connection; knows nothing of how the answer is sent.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/answer_blocks.h"
#include "api/output_text.h"
#include "api/prepare.h"
#include "engine/events.h"
#include "engine/text_model.h"

namespace roost::api {

class GenerationOutput {
 public:
  GenerationOutput(const engine::TextModel& model, const GenerationRequest& request, const Prepared& prepared);

  void take(engine::Admitted admitted);
  // The token's text waits in pending() until next() is called, so that tokens that came together are read together.
  void take(const engine::TokenDrawn& token);
  void take(engine::Finished finished);

  bool stopped() const { return text_.stopped(); }  // a stop string was seen
  bool pending() const { return !pending_text_.empty(); }
  std::int32_t drawn() const { return drawn_; }

  // What the message grew by since the last call. After take(Finished): all that was held back, too.
  std::vector<engine::ChatDelta> next();
  // Log-probabilities of the tokens since the last call; all of them are in all_logprobs().
  std::vector<TokenLogprob> take_logprobs();
  const std::vector<TokenLogprob>& all_logprobs() const { return logprobs_; }

  const engine::ChatMessage& message() const { return parser_->message(); }
  const Outcome& outcome() const { return outcome_; }

 private:
  void add_logprob(const engine::Drawn& drawn);
  std::string text_of(kv::Token token) const;

  const engine::TextModel& model_;
  std::shared_ptr<const engine::ChatSyntax> syntax_;
  std::unique_ptr<engine::ChatParser> parser_;
  OutputText text_;
  const bool want_logprobs_;
  const bool ignore_eos_;
  std::string pending_text_;
  std::vector<TokenLogprob> logprobs_;
  std::size_t logprobs_taken_ = 0;
  std::int32_t drawn_ = 0;
  bool finished_ = false;
  Outcome outcome_;
};

}  // namespace roost::api
