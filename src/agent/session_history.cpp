#include "agent/session_history.h"

namespace roost::agent {
namespace {

Result<void> read_turn_end(const std::string& text, SessionHistory& history) {
  ROOST_TRY(object, parse_json_object(text));
  const ObjectReader reader(object);
  ROOST_TRY(sandbox, reader.string("sandboxId"));
  if (sandbox) history.sandbox_id = *std::move(sandbox);
  return {};
}

}  // namespace

Result<SessionHistory> read_history(const std::vector<store::LogEntry>& entries) {
  SessionHistory history;
  for (const store::LogEntry& entry : entries) {
    history.last_position = entry.position;
    if (entry.kind == "turn") {
      ROOST_TRY_VOID(read_turn_end(entry.json, history));
    } else if (entry.kind == "system") {
      ROOST_TRY(message, from_log(entry.json));
      history.system = std::move(message.content);
    } else if (entry.kind == "user" || entry.kind == "assistant" || entry.kind == "tool") {
      ROOST_TRY(message, from_log(entry.json));
      history.messages.push_back(std::move(message));
    }
  }
  history.messages = repaired(std::move(history.messages));
  return history;
}

}  // namespace roost::agent
