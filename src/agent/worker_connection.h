// One connection of a worker: ties the requests on it to the worker's places. Its hooks go into net::ConnectionOptions.
//
// A turn has a place before its handler runs, from one of: the reservation that came with the hand-off, a place taken
// when its head was peeked on the kept-alive connection, one that was free at its head, or one that it waited for.
//
// Belongs to the worker's loop; lives as long as serve_connection().
#pragma once

#include <optional>

#include "handoff/message.h"
#include "handoff/turn_places.h"
#include "net/http_server.h"

namespace roost::agent {

// What all connections of a worker share.
struct WorkerShared {
  handoff::TurnPlaces& places;
  net::Drain& drain;
  // Is there a supervisor that takes a connection back? Otherwise a turn beyond S is refused here.
  bool under_host = false;
  std::size_t max_waiting = 0;
};

class WorkerConnection {
 public:
  enum class Place { none, reserved, in_flight, waiting };

  WorkerConnection(WorkerShared shared, bool reserved, bool return_when_idle);
  WorkerConnection(const WorkerConnection&) = delete;
  ~WorkerConnection();  // gives back what it still holds

  // Adds the hooks; they borrow this object.
  void hook_into(net::ConnectionOptions& options);

  // Why serve_connection() gave the socket back.
  handoff::Returned::Why returned_why() const { return why_; }

 private:
  std::optional<net::Response> on_head(const net::Request& head);
  void on_end();
  net::awaitable<net::NextRequest> before_next(net::tcp::socket& socket);
  net::awaitable<void> before_handler(net::Exchange& exchange);
  net::NextRequest when_idle();

  WorkerShared shared_;
  Place place_ = Place::none;
  const bool return_when_idle_;
  handoff::Returned::Why why_ = handoff::Returned::Why::idle;
};

}  // namespace roost::agent
