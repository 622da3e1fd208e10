// KvStore: the cache as the engine uses it. Keeps libllama's memory (KvPort), the cell ledger, the prefix tree and the
// anchor sequence in step: whoever changes one changes all, here and nowhere else.
//
// Sequences: slots [0, parallel), pools [parallel, parallel + max_pools), and the anchor above them where it is needed.
//
// The anchor: with a sliding window, libllama reuses a cell that exactly one sequence holds once the window has passed
// it. A pool that nobody is attached to would lose its early cells. So one sequence that never decodes also holds every
// pool's cells. (Unified cache only: a stream of its own is written by nobody else.)
//
// Invariants (check_integrity()): the ledger's count is the cache's; a sequence's highest position is its length - 1; a
// sequence's planned stream is at least as long as what is resident. Engine thread only.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kv/cell_ledger.h"
#include "kv/kv_port.h"
#include "kv/prefix_tree.h"
#include "kv/seq_ids.h"
#include "kv/share_rules.h"

namespace roost::kv {

class KvStore {
 public:
  // Reads the port's traits once. `use_anchor` is false only in the test that shows what the anchor is for.
  KvStore(KvPort& port, SeqId parallel, std::int32_t max_pools, bool use_anchor = true);
  ~KvStore();

  const KvTraits& traits() const { return traits_; }
  SeqIds& slots() { return slots_; }
  const SeqIds& slots() const { return slots_; }
  SeqIds& pool_ids() { return pool_ids_; }
  const SeqIds& pool_ids() const { return pool_ids_; }
  const CellLedger& ledger() const { return ledger_; }
  const PrefixTree& streams() const { return streams_; }

  Pos length(SeqId seq) const { return ledger_.length(seq); }  // resident tokens
  Reservation reserve(std::size_t n) { return ledger_.reserve(n); }

  // Makes the tokens that `seq` holds or will hold known to the prefix tree; replaces what was known.
  void announce(SeqId seq, const std::string& salt, std::span<const Token> tokens);
  void announce_more(SeqId seq, Token token) { streams_.append(seq, {&token, 1}); }
  void forget(SeqId seq) { streams_.erase(seq); }

  // May the first `wanted` tokens of `source` be taken by another sequence (or kept, the rest dropped)?
  ShareAnswer may_share(SeqId source, Pos wanted, bool source_moves) const;
  // `to`, empty, takes the first `n` tokens of `from`; may_share() said yes.
  void share(SeqId from, SeqId to, Pos n);
  // `to`, which holds [0, begin), takes [begin, end) of `from`. Unified only.
  void share_more(SeqId from, SeqId to, Pos begin, Pos end);
  // `seq` takes [0, n) of `from`, the same tokens, in place of its own. Unified, without window or recurrent state.
  void rebase(SeqId from, SeqId seq, Pos n);
  bool can_rebase() const { return traits_.unified && traits_.swa_window == 0 && !traits_.recurrent; }

  // The model has computed `n` more tokens of `seq`.
  void computed(SeqId seq, Pos n) { ledger_.append(seq, n); }
  // After a failed decode: takes whatever is beyond the known length out of the cache.
  void discard_beyond_length(SeqId seq);
  // Keeps [0, n). False: the memory cannot (recurrent), and nothing has changed.
  [[nodiscard]] bool truncate(SeqId seq, Pos n);
  // Empties the sequence and forgets its stream.
  void clear(SeqId seq);

  // The pool's cells are complete.
  void anchor(SeqId pool);
  // A pool has gone; `living` are the others.
  void anchor_again(const std::vector<SeqId>& living);
  SeqId anchor_id() const { return anchor_; }  // kNoSeq where none is needed

  std::string check_integrity() const;

 private:
  KvPort& port_;
  const KvTraits traits_;
  CellLedger ledger_;
  PrefixTree streams_;
  SeqIds slots_;
  SeqIds pool_ids_;
  SeqId anchor_ = kNoSeq;
};

}  // namespace roost::kv
