// FakeModel and FakeSampler: a model whose next token is a hash of all that its sequence sees in the FakeKvPort. Two
// sequences with the same history draw the same token; a wrong share shows at once. Failures can be injected.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/clock.h"
#include "engine/model_port.h"
#include "engine/sampler.h"
#include "kv/fake_kv_port.h"

namespace roost::engine {

class FakeModel final : public ModelPort {
 public:
  struct Options {
    std::int32_t vocabulary = 1000;
    std::int32_t training_length = 0;       // 0 = no bound but the cells
    std::int32_t end_of_generation_in = 0;  // one of so many drawn tokens ends the generation; 0 = none does
  };

  FakeModel(kv::FakeKvPort& kv, Options options) : kv_(kv), options_(options) {}

  DecodeStatus decode(std::span<const BatchToken> batch) override;
  // The vocabulary's last token is the end of generation.
  bool is_end_of_generation(kv::Token token) const override { return token == options_.vocabulary - 1; }
  std::int32_t vocabulary_size() const override { return options_.vocabulary; }
  std::int32_t training_length() const override { return options_.training_length; }

  // The token that the logits of batch position `index` stand for.
  kv::Token next(std::int32_t index) const;

  // Asked before each decode: what happens to it. For injected failures and for the passing of time.
  std::function<DecodeStatus(std::span<const BatchToken>)> before_decode;
  // Every batch that was decoded is shown to this.
  std::function<void(std::span<const BatchToken>)> on_batch;

 private:
  kv::FakeKvPort& kv_;
  const Options options_;
  std::vector<std::uint64_t> logits_;
};

// Draws the model's token, whatever the parameters.
class FakeSampler final : public Sampler {
 public:
  explicit FakeSampler(const FakeModel& model) : model_(model) {}
  Drawn draw(std::int32_t index) override { return {model_.next(index), 0.0F, {}}; }
  void accept_prompt(const kv::Tokens&) override {}

 private:
  const FakeModel& model_;
};

}  // namespace roost::engine
