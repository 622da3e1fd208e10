#include "kv/share_rules.h"

#include <algorithm>

namespace roost::kv {

ShareAnswer may_share(const KvTraits& traits, const ShareQuestion& q) {
  if (q.wanted <= 0) return {0, {}};
  if (q.wanted > q.source_length) return {0, "the common part is not resident"};
  // A recurrent state is that of the last token; there is none for an earlier one.
  if (traits.recurrent && (q.wanted != q.source_length || q.source_moves)) {
    return {0, "recurrent state exists only at the end of a sequence"};
  }
  // The first token after the shared part looks back over the window; those positions must still be there.
  if (traits.swa_window > 0 && q.source_pos_min > std::max(0, q.wanted - traits.swa_window)) {
    return {0, "the sliding window has lost the positions before the shared part's end"};
  }
  return {q.wanted, {}};
}

}  // namespace roost::kv
