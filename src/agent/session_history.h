// What the session log means to the turn loop. Entry kinds: "system", "user", "assistant", "tool" (a Message each) and
// "turn" (how a turn ended: {turnId, stopReason, usage, sandboxId}). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/message.h"
#include "core/result.h"
#include "store/session_log.h"

namespace roost::agent {

struct SessionHistory {
  std::optional<std::string> system;  // the last one given
  std::vector<Message> messages;      // repaired; without the system text
  std::string sandbox_id;             // of the last turn that used one
  std::uint64_t last_position = 0;
};

// Unknown kinds are skipped: a newer worker may have written them.
Result<SessionHistory> read_history(const std::vector<store::LogEntry>& entries);

}  // namespace roost::agent
