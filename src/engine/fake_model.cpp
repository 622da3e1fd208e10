#include "engine/fake_model.h"

#include "core/check.h"

namespace roost::engine {

DecodeStatus FakeModel::decode(std::span<const BatchToken> batch) {
  ROOST_CHECK(!batch.empty(), "an empty batch");
  std::vector<kv::SeqId> sequences;
  for (const BatchToken& t : batch) {
    ROOST_CHECK(t.token >= 0 && t.token < options_.vocabulary);
    sequences.push_back(t.seq);
  }
  DecodeStatus status = before_decode ? before_decode(batch) : DecodeStatus::ok;
  if (!kv_.has_room(sequences)) status = DecodeStatus::no_slot;
  if (status == DecodeStatus::no_slot) return status;
  if (on_batch) on_batch(batch);
  logits_.assign(batch.size(), 0);
  // A failing batch leaves half of itself behind, as libllama may.
  const std::size_t n = status == DecodeStatus::failed ? batch.size() / 2 : batch.size();
  for (std::size_t i = 0; i < n; ++i) {
    const BatchToken& t = batch[i];
    ROOST_CHECK(kv_.pos_max(t.seq) == t.pos - 1, "a sequence goes on where it is");
    logits_[i] = kv_.compute(t.seq, t.pos, t.token);
  }
  return status;
}

kv::Token FakeModel::next(std::int32_t index) const {
  const std::uint64_t hash = logits_.at(static_cast<std::size_t>(index));
  if (options_.end_of_generation_in > 0 &&
      (hash >> 32U) % static_cast<std::uint64_t>(options_.end_of_generation_in) == 0) {
    return options_.vocabulary - 1;
  }
  return static_cast<kv::Token>(hash % static_cast<std::uint64_t>(options_.vocabulary - 1));
}

}  // namespace roost::engine
