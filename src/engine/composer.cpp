#include "engine/composer.h"

#include <algorithm>

namespace roost::engine {
namespace {

StepShape with_prefill(StepShape shape, kv::Pos next, std::int32_t n) {
  const double tokens = n;
  shape.prefill += tokens;
  shape.kv_read += tokens * next + tokens * (tokens + 1) / 2;
  return shape;
}

// The largest n in [0, most] that keeps the step below the bound; predict_ms() grows with n.
std::int32_t largest_chunk(const StepShape& shape, kv::Pos next, std::int32_t most, const CostModel& cost,
                           double bound_ms) {
  std::int32_t low = 0;
  std::int32_t high = most;
  while (low < high) {
    const std::int32_t middle = low + (high - low + 1) / 2;
    if (cost.predict_ms(with_prefill(shape, next, middle)) <= bound_ms) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace

Composition compose(std::vector<DecodeItem> decode, std::vector<PrefillItem> prefill, const CostModel& cost,
                    const ComposeLimits& limits) {
  Composition result;
  std::int32_t room = limits.batch;

  std::stable_sort(decode.begin(), decode.end(),
                   [](const DecodeItem& a, const DecodeItem& b) { return a.last_step < b.last_step; });
  // A full batch of decoders would stop every prompt; one place is left for them when prompts wait.
  const std::int32_t places = prefill.empty() || limits.batch == 1 ? room : room - 1;
  const auto most = static_cast<std::size_t>(std::max(0, std::min(places, limits.max_decoding)));
  if (decode.size() > most) decode.resize(most);
  for (const DecodeItem& d : decode) {
    result.slices.push_back({d.session, 1, false});
    result.shape.decoding += 1;
    result.shape.kv_read += d.context + 1;
    --room;
  }

  std::stable_sort(prefill.begin(), prefill.end(), [](const PrefillItem& a, const PrefillItem& b) {
    return a.followers != b.followers ? a.followers > b.followers : a.session < b.session;
  });
  room = std::min(room, limits.prefill_cap);
  std::int32_t guaranteed = std::min(limits.min_prefill, room);
  for (const PrefillItem& p : prefill) {
    if (room <= 0) break;
    const std::int32_t wanted = std::min(p.remaining, room);
    std::int32_t n = wanted;
    if (!decode.empty()) {
      n = largest_chunk(result.shape, p.next, wanted, cost, limits.max_gap_ms);
      n = std::max(n, std::min(wanted, guaranteed));
    }
    if (n <= 0) break;
    result.slices.push_back({p.session, n, true});
    result.shape = with_prefill(result.shape, p.next, n);
    room -= n;
    guaranteed = std::max(0, guaranteed - n);
  }
  return result;
}

}  // namespace roost::engine
