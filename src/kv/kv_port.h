// KvPort: the only seam to libllama's memory. The real one is in engine/llama_kv_port; the fake (fake_kv_port.h) keeps
// real sets per cell. Called by the engine thread only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kv/types.h"

namespace roost::kv {

// What the model and the cache layout allow; constant for the life of the port.
struct KvTraits {
  std::size_t cells = 0;        // unified: of the whole cache; split: of each stream
  SeqId n_seq = 0;              // sequences, ids [0, n_seq)
  bool unified = true;          // false: each sequence has a stream of its own, sharing is a physical copy
  std::int32_t swa_window = 0;  // tokens of the sliding window, 0 = full attention
  bool recurrent = false;       // recurrent or hybrid: state exists only at the end of a sequence
  bool can_shift = false;
  std::size_t bytes_per_cell = 0;  // K and V of all layers for one token
};

class KvPort {
 public:
  virtual ~KvPort() = default;

  virtual KvTraits traits() const = 0;
  // Adds sequence `to` to the cells of `from` in [begin, end). Split caches: only with begin = 0 and end past the last
  // position (a partial copy over streams asserts in libllama).
  virtual void seq_cp(SeqId from, SeqId to, Pos begin, Pos end) = 0;
  // Takes `seq` out of its cells in [begin, end); end < 0 = to the last. False: the memory cannot (recurrent, partial),
  // and nothing has changed.
  [[nodiscard]] virtual bool seq_rm(SeqId seq, Pos begin, Pos end) = 0;
  // Lowest and highest resident position of a sequence; -1 when it is empty.
  virtual Pos pos_min(SeqId seq) const = 0;
  virtual Pos pos_max(SeqId seq) const = 0;
  // Cells in use, counted in the cache itself. For check_integrity() and status; may be slow.
  virtual std::size_t cells_used() const = 0;
};

}  // namespace roost::kv
