#include "kv/kv_store.h"

#include "core/check.h"

namespace roost::kv {
namespace {
constexpr Pos kEnd = -1;
}

KvStore::KvStore(KvPort& port, SeqId parallel, std::int32_t max_pools, bool use_anchor)
    : port_(port),
      traits_(port.traits()),
      ledger_(traits_.cells, traits_.n_seq, traits_.unified),
      slots_(0, parallel, [this](SeqId seq) { return ledger_.length(seq) == 0; }),
      pool_ids_(parallel, parallel + max_pools, [this](SeqId seq) { return ledger_.length(seq) == 0; }) {
  const bool needs_anchor = max_pools > 0 && traits_.swa_window > 0 && traits_.unified;
  ROOST_CHECK(parallel >= 1 && max_pools >= 0);
  ROOST_CHECK(parallel + max_pools + (needs_anchor ? 1 : 0) <= traits_.n_seq, "the cache has too few sequences");
  if (needs_anchor && use_anchor) anchor_ = parallel + max_pools;
}

KvStore::~KvStore() {
  if (anchor_ != kNoSeq) anchor_again({});
}

void KvStore::announce(SeqId seq, const std::string& salt, std::span<const Token> tokens) {
  streams_.erase(seq);
  streams_.insert(seq, salt, tokens);
}

ShareAnswer KvStore::may_share(SeqId source, Pos wanted, bool source_moves) const {
  return kv::may_share(traits_, {wanted, ledger_.length(source), port_.pos_min(source), source_moves});
}

void KvStore::share(SeqId from, SeqId to, Pos n) {
  ROOST_CHECK(ledger_.length(to) == 0 && n > 0 && n <= ledger_.length(from));
  if (traits_.unified) {
    // A recurrent state is copied whole; there n is the source's length.
    port_.seq_cp(from, to, 0, n);
  } else {
    port_.seq_cp(from, to, 0, kEnd);
    if (n < ledger_.length(from)) ROOST_CHECK(port_.seq_rm(to, n, kEnd), "a copied stream is trimmed");
  }
  ledger_.share(from, to, 0, n);
}

void KvStore::share_more(SeqId from, SeqId to, Pos begin, Pos end) {
  ROOST_CHECK(traits_.unified && ledger_.length(to) == begin);
  if (begin == end) return;
  port_.seq_cp(from, to, begin, end);
  ledger_.share(from, to, begin, end);
}

void KvStore::rebase(SeqId from, SeqId seq, Pos n) {
  ROOST_CHECK(can_rebase());
  if (ledger_.shared_prefix(from, seq) >= n) return;
  ROOST_CHECK(port_.seq_rm(seq, 0, n), "full attention drops any part");
  port_.seq_cp(from, seq, 0, n);
  ledger_.rebase(from, seq, n);
}

void KvStore::discard_beyond_length(SeqId seq) {
  const Pos length = ledger_.length(seq);
  if (port_.pos_max(seq) < length) return;
  if (port_.seq_rm(seq, length, kEnd)) return;
  // Recurrent: no way back to an earlier state, so nothing of the sequence can stay.
  ROOST_CHECK(port_.seq_rm(seq, 0, kEnd), "a whole sequence can always be removed");
  ledger_.truncate(seq, 0);
}

bool KvStore::truncate(SeqId seq, Pos n) {
  if (n == ledger_.length(seq)) return true;
  if (n == 0) {
    ROOST_CHECK(port_.seq_rm(seq, 0, kEnd), "a whole sequence can always be removed");
  } else if (!port_.seq_rm(seq, n, kEnd)) {
    return false;
  }
  ledger_.truncate(seq, n);
  return true;
}

void KvStore::clear(SeqId seq) {
  ROOST_CHECK(truncate(seq, 0));
  streams_.erase(seq);
}

void KvStore::anchor(SeqId pool) {
  if (anchor_ != kNoSeq) port_.seq_cp(pool, anchor_, 0, ledger_.length(pool));
}

void KvStore::anchor_again(const std::vector<SeqId>& living) {
  if (anchor_ == kNoSeq) return;
  ROOST_CHECK(port_.seq_rm(anchor_, 0, kEnd), "a whole sequence can always be removed");
  for (const SeqId pool : living) anchor(pool);
}

std::string KvStore::check_integrity() const {
  if (auto broken = ledger_.check_integrity(); !broken.empty()) return broken;
  if (auto broken = streams_.check_integrity(); !broken.empty()) return broken;
  if (auto broken = slots_.check_integrity(); !broken.empty()) return broken;
  if (auto broken = pool_ids_.check_integrity(); !broken.empty()) return broken;
  for (SeqId seq = 0; seq < pool_ids_.end(); ++seq) {
    const Pos length = ledger_.length(seq);
    const auto name = std::to_string(seq);
    if (port_.pos_max(seq) != length - 1) return "kv: sequence " + name + " ends elsewhere in the cache";
    if (traits_.swa_window == 0 && length > 0 && port_.pos_min(seq) != 0)
      return "kv: sequence " + name + " lost its start";
    if (streams_.contains(seq) && streams_.length(seq) < length)
      return "kv: sequence " + name + " holds unknown tokens";
  }
  if (port_.cells_used() != ledger_.used()) {
    return "kv: the ledger counts " + std::to_string(ledger_.used()) + " cells, the cache " +
           std::to_string(port_.cells_used());
  }
  return {};
}

}  // namespace roost::kv
