#include "host/routing_policy.h"

#include <functional>

#include "host/sticky_by_session.h"

namespace roost::host {

std::uint64_t session_key(std::string_view session_id) {
  if (session_id.empty()) return 0;
  const std::uint64_t key = std::hash<std::string_view>{}(session_id);
  return key == 0 ? 1 : key;
}

std::optional<std::size_t> least_in_flight(std::span<const WorkerLoad> loads, bool needs_place) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    const WorkerLoad& l = loads[i];
    if (needs_place && !l.has_room()) continue;
    if (!best) {
      best = i;
      continue;
    }
    const WorkerLoad& b = loads[*best];
    if (l.places_taken() != b.places_taken() ? l.places_taken() < b.places_taken() : l.idle_since < b.idle_since)
      best = i;
  }
  return best;
}

std::optional<Choice> LeastInFlight::choose(std::span<const WorkerLoad> loads, const RouteRequest& request) const {
  const auto at = least_in_flight(loads, request.needs_place);
  if (!at) return std::nullopt;
  return Choice{*at, Affinity::none};
}

std::unique_ptr<RoutingPolicy> make_policy(Policy policy) {
  if (policy == Policy::sticky_by_session) return std::make_unique<StickyBySession>();
  return std::make_unique<LeastInFlight>();
}

}  // namespace roost::host
