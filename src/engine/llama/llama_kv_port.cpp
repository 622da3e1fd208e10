#include "engine/llama/llama_kv_port.h"

#include <llama-kv-cache-iswa.h>
#include <llama-kv-cache.h>
#include <llama-memory-hybrid-iswa.h>
#include <llama-memory-hybrid.h>
#include <llama-memory-recurrent.h>
#include <llama.h>

#include "core/check.h"

namespace roost::engine {
namespace {

// The attention cache of whatever memory the model has; of a sliding-window pair the full one. Null for a purely
// recurrent one.
const llama_kv_cache* attention_cache(llama_memory_t memory) {
  if (const auto* plain = dynamic_cast<const llama_kv_cache*>(memory)) return plain;
  if (const auto* iswa = dynamic_cast<const llama_kv_cache_iswa*>(memory)) return iswa->get_base();
  if (const auto* hybrid = dynamic_cast<const llama_memory_hybrid*>(memory)) return hybrid->get_mem_attn();
  if (const auto* hybrid = dynamic_cast<const llama_memory_hybrid_iswa*>(memory))
    return hybrid->get_mem_attn()->get_base();
  return nullptr;
}

class LlamaKvPort final : public kv::KvPort {
 public:
  LlamaKvPort(llama_context* context, bool unified, std::size_t bytes_per_cell)
      : memory_(llama_get_memory(context)), cache_(attention_cache(memory_)) {
    const llama_model* model = llama_get_model(context);
    traits_.cells = unified ? llama_n_ctx(context) : llama_n_ctx_seq(context);
    traits_.n_seq = static_cast<kv::SeqId>(llama_n_seq_max(context));
    traits_.unified = unified;
    traits_.swa_window = llama_model_n_swa(model);
    traits_.recurrent = llama_model_is_recurrent(model) || llama_model_is_hybrid(model);
    traits_.can_shift = llama_memory_can_shift(memory_);
    traits_.bytes_per_cell = bytes_per_cell;
  }

  kv::KvTraits traits() const override { return traits_; }

  void seq_cp(kv::SeqId from, kv::SeqId to, kv::Pos begin, kv::Pos end) override {
    check_seq(from);
    check_seq(to);
    ROOST_CHECK(traits_.unified || (begin == 0 && (end < 0 || end > pos_max(from))),
                "a partial copy between the streams of a split cache asserts in libllama");
    llama_memory_seq_cp(memory_, from, to, begin, end);
  }

  bool seq_rm(kv::SeqId seq, kv::Pos begin, kv::Pos end) override {
    check_seq(seq);
    return llama_memory_seq_rm(memory_, seq, begin, end);
  }

  kv::Pos pos_min(kv::SeqId seq) const override {
    check_seq(seq);
    return llama_memory_seq_pos_min(memory_, seq);
  }
  kv::Pos pos_max(kv::SeqId seq) const override {
    check_seq(seq);
    return llama_memory_seq_pos_max(memory_, seq);
  }

  std::size_t cells_used() const override {
    if (cache_ == nullptr) return 0;
    if (traits_.unified) return cache_->get_cells(0).get_used();
    std::size_t used = 0;
    for (kv::SeqId s = 0; s < traits_.n_seq; ++s) used += cache_->get_cells(s).get_used();
    return used;
  }

 private:
  // Ids come from our own tree, never from a request: a stray one is a bug, and libllama would abort less clearly.
  void check_seq(kv::SeqId seq) const {
    ROOST_CHECK(seq >= 0 && seq < traits_.n_seq, "a sequence id outside of the cache");
  }

  llama_memory_t memory_;
  const llama_kv_cache* cache_;
  kv::KvTraits traits_;
};

}  // namespace

std::unique_ptr<kv::KvPort> make_llama_kv_port(llama_context* context, bool unified, std::size_t bytes_per_cell) {
  return std::make_unique<LlamaKvPort>(context, unified, bytes_per_cell);
}

}  // namespace roost::engine
