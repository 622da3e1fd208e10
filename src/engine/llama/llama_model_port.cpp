#include "engine/llama/llama_model_port.h"

#include <llama.h>

#include <exception>
#include <vector>

#include "core/log.h"
#include "engine/llama/llama_log.h"

namespace roost::engine {
namespace {

class LlamaModelPort final : public ModelPort {
 public:
  LlamaModelPort(llama_context* context, std::int32_t max_outputs)
      : context_(context),
        model_(llama_get_model(context)),
        vocab_(llama_model_get_vocab(model_)),
        max_outputs_(max_outputs) {
    // The arrays of a batch of one sequence per token, made once: a step allocates nothing.
    const std::size_t n = llama_n_batch(context);
    tokens_.resize(n);
    positions_.resize(n);
    n_seq_ids_.assign(n, 1);
    seq_ids_.resize(n);
    seq_id_pointers_.resize(n);
    wants_logits_.resize(n);
    for (std::size_t i = 0; i < n; ++i) seq_id_pointers_[i] = &seq_ids_[i];
  }

  DecodeStatus decode(std::span<const BatchToken> batch) override {
    if (batch.empty()) return DecodeStatus::ok;
    if (batch.size() > tokens_.size()) return refuse("a batch above the batch size");
    std::int32_t outputs = 0;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      tokens_[i] = batch[i].token;
      positions_[i] = batch[i].pos;
      seq_ids_[i] = batch[i].seq;
      wants_logits_[i] = batch[i].logits ? 1 : 0;
      outputs += wants_logits_[i];
    }
    if (outputs > max_outputs_) return refuse("a batch that wants too many logits");
    llama_batch view{};
    view.n_tokens = static_cast<std::int32_t>(batch.size());
    view.token = tokens_.data();
    view.pos = positions_.data();
    view.n_seq_id = n_seq_ids_.data();
    view.seq_id = seq_id_pointers_.data();
    view.logits = wants_logits_.data();
    return run(view);
  }

  bool is_end_of_generation(kv::Token token) const override { return llama_vocab_is_eog(vocab_, token); }
  std::int32_t vocabulary_size() const override { return llama_vocab_n_tokens(vocab_); }
  std::int32_t training_length() const override { return llama_model_n_ctx_train(model_); }

 private:
  DecodeStatus run(const llama_batch& batch) {
    try {
      const std::int32_t status = llama_decode(context_, batch);
      if (status == 0) return DecodeStatus::ok;
      if (status == 1) return DecodeStatus::no_slot;
      log::error("decode_failed", {{"status", status}, {"why", take_llama_errors()}});
    } catch (const std::exception& e) {
      log::error("decode_failed", {{"why", e.what()}});
    }
    return DecodeStatus::failed;
  }

  static DecodeStatus refuse(const char* why) {
    log::error("decode_refused", {{"why", why}});
    return DecodeStatus::failed;
  }

  llama_context* context_;
  const llama_model* model_;
  const llama_vocab* vocab_;
  std::int32_t max_outputs_;
  std::vector<llama_token> tokens_;
  std::vector<llama_pos> positions_;
  std::vector<std::int32_t> n_seq_ids_;
  std::vector<llama_seq_id> seq_ids_;
  std::vector<llama_seq_id*> seq_id_pointers_;
  std::vector<std::int8_t> wants_logits_;
};

}  // namespace

std::unique_ptr<ModelPort> make_llama_model_port(llama_context* context, std::int32_t max_outputs) {
  return std::make_unique<LlamaModelPort>(context, max_outputs);
}

}  // namespace roost::engine
