// SessionWriter: the write-behind end of one turn. append() only queues; entries leave in batches, one append script
// under way at a time, in order. flush() waits until everything is written and tells of the first error; after an error
// nothing more is written, so the log never has a hole.
//
// Used from the Redis client's executor.
#pragma once

#include <memory>
#include <string>

#include "core/clock.h"
#include "store/session_log.h"

namespace roost::store {

class SessionWriter {
 public:
  // `last_position` is the position the log ends at. The lease's value is copied: the writer may outlive the lease and
  // then cannot write any more.
  SessionWriter(asio::any_io_executor executor, SessionLog log, std::string session_id, std::string lease_value,
                std::uint64_t last_position, const Clock& clock);
  SessionWriter(const SessionWriter&) = delete;

  void append(std::string kind, std::string json);
  // Writes what is queued together with `totals` and waits for all of it.
  asio::awaitable<Result<void>> flush(TurnTotals totals);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace roost::store
