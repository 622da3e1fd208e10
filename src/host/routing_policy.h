// Which worker gets a connection. A policy sees only workers that can take one now (ready, answering, channel not full)
// and allocates nothing after construction. Belongs to the supervisor's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "core/clock.h"
#include "host/options.h"

namespace roost::host {

struct WorkerLoad {
  std::uint32_t worker = 0;  // its place in the pool
  std::uint32_t serial = 0;  // of its process; never given twice
  std::uint32_t reserved = 0;
  std::uint32_t in_flight = 0;
  std::uint32_t capacity = 0;  // S
  TimePoint idle_since{};      // its last turn's end or last hand-off, whichever is later

  std::uint32_t places_taken() const { return reserved + in_flight; }
  bool has_room() const { return places_taken() < capacity; }
};

struct RouteRequest {
  bool needs_place = false;   // a turn; anything else may go to a worker at S
  std::uint64_t session = 0;  // session_key() of its routing header; 0 = none
};

enum class Affinity {
  none,  // no session, a policy that does not look at it, or the session's first turn
  hit,   // goes to the worker that has the session
  lost,  // that worker is gone: the session moves
  full,  // that worker is at S: elsewhere this time, the pin stays
};

struct Choice {
  std::size_t at = 0;  // in the loads given
  Affinity affinity = Affinity::none;
};

class RoutingPolicy {
 public:
  virtual ~RoutingPolicy() = default;
  // Empty: no worker can take it. Changes nothing.
  virtual std::optional<Choice> choose(std::span<const WorkerLoad> loads, const RouteRequest& request) const = 0;
  // The choice was carried out.
  virtual void assigned(const WorkerLoad& worker, const RouteRequest& request, Affinity affinity) = 0;
};

std::unique_ptr<RoutingPolicy> make_policy(Policy policy);

// The key of a session id; 0 only for the empty one. Two ids with the same key share a pin, which costs balance,
// nothing else.
std::uint64_t session_key(std::string_view session_id);

// The least loaded; of equal ones the idle longest. Empty when a place is needed and none has room.
std::optional<std::size_t> least_in_flight(std::span<const WorkerLoad> loads, bool needs_place);

class LeastInFlight final : public RoutingPolicy {
 public:
  std::optional<Choice> choose(std::span<const WorkerLoad> loads, const RouteRequest& request) const override;
  void assigned(const WorkerLoad&, const RouteRequest&, Affinity) override {}
};

}  // namespace roost::host
