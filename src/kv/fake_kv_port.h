// FakeKvPort: libllama's memory with real sets per cell, and its quirks:
//  - unified: sharing adds to a cell's set; a cell is free when its set is empty.
//  - split: each sequence has a stream; only a copy of the whole stream is allowed (aborts otherwise, as libllama
//  does).
//  - sliding window: a second cache beside the first. A new token may take a cell that exactly one sequence holds and
//  that
//    this sequence's window has passed; that sequence then loses all positions up to it.
//  - recurrent: one state per sequence; it can be dropped or copied whole, never cut.
// Each cell carries a value: a hash of its token, its position and all that was visible when it was computed. Two
// sequences with the same history see the same values; a wrong share shows in every value after it.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "kv/kv_port.h"

namespace roost::kv {

class FakeKvPort final : public KvPort {
 public:
  explicit FakeKvPort(KvTraits traits);

  KvTraits traits() const override { return traits_; }
  void seq_cp(SeqId from, SeqId to, Pos begin, Pos end) override;
  bool seq_rm(SeqId seq, Pos begin, Pos end) override;
  Pos pos_min(SeqId seq) const override;
  Pos pos_max(SeqId seq) const override;
  std::size_t cells_used() const override;

  // For the fake model. Is there room for the tokens of a batch, given as sequences?
  bool has_room(std::span<const SeqId> batch) const;
  // Computes one token; its value is what the logits are made of. has_room() said yes; `pos` follows the last one.
  std::uint64_t compute(SeqId seq, Pos pos, Token token);

 private:
  struct Cell {
    Pos pos = 0;
    std::uint64_t value = 0;
    std::set<SeqId> seqs;
  };
  struct State {
    Pos pos;
    std::uint64_t value;
  };
  using Stream = std::vector<Cell>;
  struct Cache {
    std::vector<Stream> streams;
    std::vector<std::size_t> heads;
  };

  std::size_t stream_of(SeqId seq) const { return traits_.unified ? 0 : static_cast<std::size_t>(seq); }
  void copy(Cache& cache, SeqId from, SeqId to, Pos begin, Pos end) const;
  void remove(Cache& cache, SeqId seq, Pos begin, Pos end) const;
  Pos lowest(const Cache& cache, SeqId seq) const;
  Pos highest(const Cache& cache, SeqId seq) const;
  Cell& claim(Cache& cache, SeqId seq, bool window);

  const KvTraits traits_;
  Cache base_;
  Cache window_;                              // only with a sliding window
  std::vector<std::optional<State>> states_;  // only when recurrent
};

}  // namespace roost::kv
