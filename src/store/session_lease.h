// SessionLease: the right to write one session, held by one turn at a time in the whole system.
//
// Kept in Redis as `session:<sid>:lease` = "<fencing token>:<turn id>" with a life that is renewed while the turn runs.
// The token comes from a counter that only grows. Every append checks the lease's whole value inside the append script,
// so a writer that lost its lease cannot write, however late it wakes up.
//
// Used from the Redis client's executor. lost() must be watched: after it the turn's work can no longer be kept.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "core/abort.h"
#include "core/result.h"
#include "store/redis.h"

namespace roost::store {

class SessionLease {
 public:
  // Takes the lease and begins to renew it every third of `life`. Held by another turn: turn_in_progress with the
  // detail turnId. Redis away: redis_unavailable.
  static asio::awaitable<Result<std::unique_ptr<SessionLease>>> acquire(asio::any_io_executor executor,
                                                                        std::shared_ptr<Redis> redis,
                                                                        std::string session_id, std::string turn_id,
                                                                        std::chrono::milliseconds life);
  // Stops the renewal; a lease that was not released is given back in the background.
  ~SessionLease();
  SessionLease(const SessionLease&) = delete;

  const std::string& session_id() const;
  // "<token>:<turn id>", as the append script compares it.
  const std::string& value() const;
  std::uint64_t token() const;
  // Requested with reason "lease_lost" when another holder or the end of the lease's life was seen.
  AbortSource& lost();

  // Gives it back now, so that the session's next turn can begin.
  asio::awaitable<void> release();

 private:
  struct State;
  explicit SessionLease(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

// "session:<sid>:lease"
std::string lease_key(std::string_view session_id);
// The turn id in a lease's value; empty when there is none.
std::string turn_of_lease(std::string_view value);

}  // namespace roost::store
