// The messages of a conversation, shaped like OpenAI's: what goes to the model, and what the session log keeps.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "core/result.h"

namespace roost::agent {

enum class Role { system, user, assistant, tool };
std::string_view to_string(Role role);

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON text as the model wrote it; may be malformed
  friend bool operator==(const ToolCall&, const ToolCall&) = default;
};

struct Message {
  Role role = Role::user;
  std::string content;
  std::vector<ToolCall> tool_calls;  // of assistant
  std::string tool_call_id;          // of tool
  bool is_error = false;             // of tool; kept in the log, not sent to the model
  friend bool operator==(const Message&, const Message&) = default;
};

// For the model: {"role", "content", "tool_calls"?, "tool_call_id"?}.
json::object to_openai(const Message& message);

// For the log: the same, with "is_error" where it is true. from_log accepts what to_log wrote; anything else is
// internal.
std::string to_log(const Message& message);
Result<Message> from_log(std::string_view text);

// A history that any model accepts, from a log whose last turn may have been cut off anywhere:
//   - a tool call without a result gets one that says that it was interrupted (its effects may be there);
//   - a tool result without a call is left out;
//   - a prompt that was never answered is left out (its sender was told so).
// Pure, and a history without such places comes back as it is.
std::vector<Message> repaired(std::vector<Message> history);

}  // namespace roost::agent
