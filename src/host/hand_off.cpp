// Supervisor: routing, handing over, claims.
#include <algorithm>

#include "core/check.h"
#include "core/log.h"
#include "host/supervisor.h"

namespace roost::host {

using handoff::ClaimState;
using handoff::SendStatus;

// Gives a connection whose head is known to a worker, or refuses it, or lets it wait for a channel.
void Supervisor::route(std::uint32_t index) {
  unwatch(index);
  if (connections_.at(index).low_water) set_low_water(index, 1);
  switch (hand_off(index)) {
    case HandOff::sent:
      break;
    case HandOff::full:
      if (connections_.at(index).stage != Stage::blocked) connections_.move(index, Stage::blocked, now_);
      break;
    case HandOff::none:
      if (connections_.at(index).handoffs > 0) view_.counters.handoff_failures.fetch_add(1, std::memory_order_relaxed);
      refuse_overloaded(index);
      break;
  }
}

Supervisor::HandOff Supervisor::hand_off(std::uint32_t index) {
  Connection& c = connections_.at(index);
  const RouteRequest request{c.turn, c.session};
  // Each pass ends it, or shows that a word or a channel has changed since the loads were read.
  while (true) {
    const auto loads = pool_.loads();
    if (std::exchange(observe_loads_, false)) view_.refusals.observe(loads, pool_.ids());
    const auto choice = policy_->choose(loads, request);
    if (!choice) return pool_.any_channel_full() ? HandOff::full : HandOff::none;
    const WorkerLoad& load = loads[choice->at];
    const handoff::Row& row = pool_.at(load.worker).row;
    if (c.turn && !row.try_reserve()) continue;
    const auto ticket = claims_.take();
    const SendStatus status = ticket ? send_to(index, load, *ticket, c.turn) : SendStatus::full;
    if (status != SendStatus::sent) {
      if (c.turn) row.release_reservation();
      if (!ticket) return HandOff::full;
      page_.take_back(ticket->slot, ticket->number);
      claims_.give_back(ticket->slot);
      if (status == SendStatus::full) {
        pool_.mark_channel_full(load.worker);
      } else {
        pool_.on_channel_closed(load.worker, now_);
      }
      continue;
    }
    Worker& worker = pool_.at(load.worker);
    if (choice->affinity != Affinity::none && c.turn) {
      const bool hit = choice->affinity == Affinity::hit;
      (hit ? worker.affinity_hits : worker.affinity_misses) += 1;
      (hit ? view_.counters.affinity_hits : view_.counters.affinity_misses).fetch_add(1, std::memory_order_relaxed);
    }
    policy_->assigned(load, request, choice->affinity);
    worker.assigned_at = now_;
    return HandOff::sent;
  }
}

SendStatus Supervisor::send_to(std::uint32_t index, const WorkerLoad& load, ClaimSlots::Ticket ticket, bool reserved) {
  Connection& c = connections_.at(index);
  page_.open_claim(ticket.slot, ticket.number);
  const handoff::Conn message{ticket.slot, ticket.number, reserved, options_.scope == Scope::request};
  const SendStatus status = pool_.at(load.worker).channel.send(message, c.fd);
  if (status != SendStatus::sent) return status;
  c.worker = load.worker;
  c.claim_slot = ticket.slot;
  c.ticket = ticket.number;
  c.reserved = reserved;
  if (c.handoffs < 255) ++c.handoffs;
  connections_.move(index, Stage::unclaimed, now_);
  return status;
}

void Supervisor::refuse_overloaded(std::uint32_t index) {
  // The loads that the decision saw, not newer ones: room that came since would make the record a lie.
  const auto loads = pool_.last_loads();
  auto& counters = view_.counters;
  counters.refusals.fetch_add(1, std::memory_order_relaxed);
  // Only a turn needs room; anything else is refused for want of a worker.
  const bool had_room = std::ranges::any_of(loads, &WorkerLoad::has_room);
  if (had_room && connections_.at(index).turn && connections_.at(index).stage != Stage::blocked) {
    counters.spurious_refusals.fetch_add(1, std::memory_order_relaxed);
  }
  view_.refusals.add(SystemClock().unix_seconds(), options_.turns_per_worker, loads, pool_.ids());
  observe_loads_ = true;
  refuse(index, draining_ ? ErrorKind::shutting_down : ErrorKind::overloaded);
}

// Looks at every claim under way. Oldest first, so the overdue ones are in front; all are looked at, for a worker may
// claim out of the order of another.
void Supervisor::settle_claims() {
  std::uint32_t index = connections_.front(Stage::unclaimed);
  // Those that are routed again go to the end of this list: a bound of today's length visits each once.
  for (std::size_t left = connections_.count(Stage::unclaimed); left > 0 && index != kNoConnection; --left) {
    const std::uint32_t next = connections_.at(index).next;
    settle(index, now_ >= connections_.at(index).since + options_.claim_timeout);
    index = next;
  }
}

void Supervisor::settle_claims_of(std::uint32_t worker) {
  std::uint32_t index = connections_.front(Stage::unclaimed);
  for (std::size_t left = connections_.count(Stage::unclaimed); left > 0 && index != kNoConnection; --left) {
    const std::uint32_t next = connections_.at(index).next;
    if (connections_.at(index).worker == worker) settle(index, true);
    index = next;
  }
}

// The claim is decided: the worker has the connection, or it is routed again.
Supervisor::Settled Supervisor::settle(std::uint32_t index, bool overdue) {
  Connection& c = connections_.at(index);
  ClaimState state = page_.claim_state(c.claim_slot, c.ticket);
  if (state == ClaimState::open) {
    if (!overdue) return Settled::waiting;
    state = page_.take_back(c.claim_slot, c.ticket) ? ClaimState::closed : page_.claim_state(c.claim_slot, c.ticket);
  }
  claims_.give_back(c.claim_slot);
  unblock_ = true;
  if (state == ClaimState::claimed) {
    view_.counters.handoffs.fetch_add(1, std::memory_order_relaxed);
    connections_.drop(index);
    return Settled::done;
  }
  if (std::exchange(c.reserved, false)) pool_.at(c.worker).row.release_reservation();
  pool_.mark_stalled(c.worker);
  retry(index);
  return Settled::done;
}

void Supervisor::retry(std::uint32_t index) {
  view_.counters.handoff_retries.fetch_add(1, std::memory_order_relaxed);
  if (draining_) {
    refuse(index, ErrorKind::shutting_down);
  } else {
    route(index);
  }
}

void Supervisor::retry_blocked() {
  if (!std::exchange(unblock_, false)) return;
  std::size_t left = connections_.count(Stage::blocked);
  for (; left > 0; --left) {
    const std::uint32_t index = connections_.front(Stage::blocked);
    const HandOff result = hand_off(index);
    if (result == HandOff::full) return;
    if (result == HandOff::none) refuse_overloaded(index);
  }
}

}  // namespace roost::host
