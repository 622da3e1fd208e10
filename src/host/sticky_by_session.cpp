#include "host/sticky_by_session.h"

#include <algorithm>

#include "core/check.h"

namespace roost::host {

StickyBySession::StickyBySession(std::uint32_t sessions) : pins_(sessions), buckets_(sessions * 2 + 1, kNone) {
  ROOST_CHECK(sessions > 0);
}

std::optional<Choice> StickyBySession::choose(std::span<const WorkerLoad> loads, const RouteRequest& request) const {
  Affinity affinity = Affinity::none;
  if (const std::uint32_t pin = request.session == 0 ? kNone : find(request.session); pin != kNone) {
    const auto at = std::ranges::find(loads, pins_[pin].serial, &WorkerLoad::serial);
    if (at != loads.end() && (!request.needs_place || at->has_room())) {
      return Choice{static_cast<std::size_t>(at - loads.begin()), Affinity::hit};
    }
    affinity = at == loads.end() ? Affinity::lost : Affinity::full;
  }
  const auto at = least_in_flight(loads, request.needs_place);
  if (!at) return std::nullopt;
  return Choice{*at, affinity};
}

void StickyBySession::assigned(const WorkerLoad& worker, const RouteRequest& request, Affinity affinity) {
  // Only a turn makes a session's home; a cancel or a status request just finds it.
  if (request.session == 0 || !request.needs_place) return;
  std::uint32_t pin = find(request.session);
  if (pin == kNone) {
    pin = take_pin();
    pins_[pin].session = request.session;
    pins_[pin].chain = bucket(request.session);
    bucket(request.session) = pin;
    pins_[pin].serial = worker.serial;
  } else {
    unlink(pin);
    if (affinity != Affinity::full) pins_[pin].serial = worker.serial;
  }
  push_newest(pin);
}

std::uint32_t StickyBySession::find(std::uint64_t session) const {
  std::uint32_t pin = buckets_[session % buckets_.size()];
  while (pin != kNone && pins_[pin].session != session) pin = pins_[pin].chain;
  return pin;
}

std::uint32_t StickyBySession::take_pin() {
  if (used_ < pins_.size()) return used_++;
  const std::uint32_t pin = oldest_;
  unlink(pin);
  leave_bucket(pin);
  return pin;
}

void StickyBySession::leave_bucket(std::uint32_t pin) {
  std::uint32_t* at = &bucket(pins_[pin].session);
  while (*at != pin) at = &pins_[*at].chain;
  *at = pins_[pin].chain;
}

void StickyBySession::unlink(std::uint32_t pin) {
  Pin& p = pins_[pin];
  (p.newer == kNone ? newest_ : pins_[p.newer].older) = p.older;
  (p.older == kNone ? oldest_ : pins_[p.older].newer) = p.newer;
  p.newer = p.older = kNone;
}

void StickyBySession::push_newest(std::uint32_t pin) {
  pins_[pin].older = newest_;
  (newest_ == kNone ? oldest_ : pins_[newest_].newer) = pin;
  newest_ = pin;
}

void StickyBySession::check_integrity() const {
  std::uint32_t count = 0;
  for (std::uint32_t pin = newest_; pin != kNone; pin = pins_[pin].older, ++count) {
    ROOST_CHECK(find(pins_[pin].session) == pin, "a pin that its bucket does not know");
  }
  ROOST_CHECK(count == used_);
  std::uint32_t chained = 0;
  for (std::uint32_t head : buckets_) {
    for (std::uint32_t pin = head; pin != kNone; pin = pins_[pin].chain) ++chained;
  }
  ROOST_CHECK(chained == used_);
}

}  // namespace roost::host
