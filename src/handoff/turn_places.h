// The worker's side of its places: turns take one, give it back, and those that came without a reservation when all
// were taken (a pipelined turn, a head that came too slowly for the supervisor) wait their turn in order. A place that
// is given back goes to the first that waits, never past it.
//
// Belongs to the worker's loop. Waiters are told by their callback, from inside the call that freed the place.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <utility>

#include "handoff/counter_page.h"

namespace roost::handoff {

class TurnPlaces {
 public:
  using Granted = std::function<void()>;
  using Waiter = std::list<Granted>::iterator;

  explicit TurnPlaces(Row row) : row_(row) {}

  // A place without a reservation. False: at capacity, or others wait already.
  bool try_start() { return waiting_.empty() && row_.try_start(); }
  // The reservation that came with a connection becomes its turn.
  bool start_reserved() { return row_.start_reserved(); }
  // The connection did not use it.
  void release_reservation() {
    row_.release_reservation();
    admit();
  }
  void end_turn() {
    if (!grant_first()) row_.end_turn();
  }

  // `granted` runs once, when the waiter has a place (which end_turn() gives back). Until then it may be cancelled.
  Waiter wait(Granted granted) { return waiting_.insert(waiting_.end(), std::move(granted)); }
  void cancel(Waiter waiter) { waiting_.erase(waiter); }
  std::size_t waiting() const { return waiting_.size(); }

  // Gives free places to those that wait. Called now and then: the supervisor frees places too, without a word.
  void admit() {
    while (!waiting_.empty() && row_.try_start()) grant_first();
  }

  const Row& row() const { return row_; }

 private:
  bool grant_first() {
    if (waiting_.empty()) return false;
    const Granted granted = std::move(waiting_.front());
    waiting_.pop_front();
    granted();
    return true;
  }

  Row row_;
  std::list<Granted> waiting_;
};

}  // namespace roost::handoff
