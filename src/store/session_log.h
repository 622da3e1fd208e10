// The log of a session: `session:<sid>`, a Redis stream with one entry per message {position, time, kind, json,
// sha256}. The stream id is "<position>-0"; positions count from 1 without a gap. Totals (turns, tokens, sandbox) live
// in the hash `session:<sid>:meta` and are changed by the very script that appends, so they cannot disagree with the
// log. All sessions are in the sorted set `sessions`, by time of their last write: listing never scans the key space.
//
// What the JSON means is the agent's business. Used from the Redis client's executor.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "store/redis.h"
#include "store/session_lease.h"

namespace roost::store {

inline constexpr std::size_t kSessionEntries = 65'536;          // of one session; a longer one is refused at load
inline constexpr std::size_t kSessionBytes = 64 * 1024 * 1024;  // JSON of one session; the same
inline constexpr std::size_t kSessionPage = 256;                // entries of one XRANGE

struct LogEntry {
  std::uint64_t position = 0;
  std::int64_t time_ms = 0;  // unix
  std::string kind;
  std::string json;
  friend bool operator==(const LogEntry&, const LogEntry&) = default;
};

// What a finished (or failed) turn adds to the session's totals.
struct TurnTotals {
  std::int64_t turns = 0;
  std::int64_t input_tokens = 0;
  std::int64_t output_tokens = 0;
  std::string sandbox_id;  // empty = unchanged
};

struct SessionInfo {
  std::string session_id;
  TurnTotals totals;
  std::int64_t created_ms = 0;
  std::int64_t updated_ms = 0;
  std::uint64_t entries = 0;
  std::string running_turn;  // empty = idle
};

class SessionLog {
 public:
  explicit SessionLog(std::shared_ptr<Redis> redis) : redis_(std::move(redis)) {}

  // The entries after `after`, in order, page by page. A session that does not exist is empty. Errors:
  // redis_unavailable; exceed_context_size for a session beyond the limits above; internal for an entry whose sha256
  // does not fit or a gap.
  asio::awaitable<Result<std::vector<LogEntry>>> load(std::string session_id, std::uint64_t after = 0);

  // Appends all entries or none, and adds `totals`. `last_position` is the position the log ends at now. Errors:
  // turn_in_progress when the lease is no longer this one or another wrote meanwhile; redis_unavailable.
  asio::awaitable<Result<void>> append(std::string session_id, std::string lease_value, std::uint64_t last_position,
                                       std::vector<LogEntry> entries, TurnTotals totals);

  // session_not_found when nothing was ever written.
  asio::awaitable<Result<SessionInfo>> info(std::string session_id);
  // The most recently written first.
  asio::awaitable<Result<std::vector<std::string>>> list(std::uint64_t offset, std::uint64_t count);
  // Forgets the session; only its lease holder may. The fencing counter stays: tokens never come twice.
  asio::awaitable<Result<void>> remove(std::string session_id, std::string lease_value);

 private:
  std::shared_ptr<Redis> redis_;
};

}  // namespace roost::store
