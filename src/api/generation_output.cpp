#include "api/generation_output.h"

#include <iterator>

#include "core/utf8.h"

namespace roost::api {

GenerationOutput::GenerationOutput(const engine::TextModel& model, const GenerationRequest& request,
                                   const Prepared& prepared)
    : model_(model),
      syntax_(prepared.syntax),
      parser_(model.make_parser(prepared.syntax)),
      text_(prepared.stops),
      want_logprobs_(request.logprobs),
      ignore_eos_(request.sampling.ignore_eos) {}

std::string GenerationOutput::text_of(kv::Token token) const {
  return token < 0 ? std::string{} : to_valid_utf8(model_.piece(token, true));
}

void GenerationOutput::take(engine::Admitted admitted) {
  if (admitted.divergence) {
    outcome_.pool_token_text = text_of(admitted.divergence->pool_token);
    outcome_.prompt_token_text = text_of(admitted.divergence->prompt_token);
  }
  outcome_.admitted = std::move(admitted);
}

void GenerationOutput::take(const engine::TokenDrawn& token) {
  ++drawn_;
  if (text_.stopped()) return;
  const kv::Token id = token.drawn.token;
  if (want_logprobs_) add_logprob(token.drawn);
  if (model_.is_end_of_generation(id) && !ignore_eos_) return;
  pending_text_ += text_.feed(model_.piece(id, model_.is_visible_special(syntax_.get(), id)));
}

void GenerationOutput::take(engine::Finished finished) {
  outcome_.finished = std::move(finished);
  outcome_.stop_string = text_.stop_string();
  pending_text_ += text_.finish();
  finished_ = true;
}

std::vector<engine::ChatDelta> GenerationOutput::next() {
  std::vector<engine::ChatDelta> deltas;
  if (!pending_text_.empty()) {
    deltas = parser_->feed(pending_text_);
    pending_text_.clear();
  }
  if (finished_) std::ranges::move(parser_->finish(), std::back_inserter(deltas));
  return deltas;
}

std::vector<TokenLogprob> GenerationOutput::take_logprobs() {
  std::vector<TokenLogprob> fresh(logprobs_.begin() + static_cast<std::ptrdiff_t>(logprobs_taken_), logprobs_.end());
  logprobs_taken_ = logprobs_.size();
  return fresh;
}

void GenerationOutput::add_logprob(const engine::Drawn& drawn) {
  TokenLogprob entry{drawn.token, model_.piece(drawn.token, true), drawn.logprob, {}};
  for (const auto& a : drawn.alternatives)
    entry.alternatives.push_back({a.token, model_.piece(a.token, true), a.logprob});
  logprobs_.push_back(std::move(entry));
}

}  // namespace roost::api
