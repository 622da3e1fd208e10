// The body of POST /turn.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/model_client.h"
#include "core/result.h"

namespace roost::agent {

struct TurnRequest {
  std::string prompt;
  std::string session_id;  // empty = a new session
  std::optional<std::string> system;
  std::vector<ToolSchema> tools;  // to offer; all when the field is absent
  std::string model;              // empty = the worker's
  std::optional<std::int64_t> max_turns;

  // Ours, additive.
  std::optional<std::int64_t> pool_id;
  std::optional<ToolChoice> tool_choice;  // of the first model call only
  std::optional<std::int64_t> max_tokens;
  std::optional<double> temperature;
  std::optional<std::int64_t> seed;
};

// `routing_session` is the header X-SH-Session-Id (empty = absent). Errors: invalid_json, prompt_required,
// invalid_request naming the field, session_mismatch when header and body name two sessions, not_supported for
// `detachable`.
Result<TurnRequest> parse_turn_request(std::string_view body, std::string_view routing_session);

// A sessionId as clients may choose it: letters, digits, `. _ ~ -`, at most 128.
Result<void> check_session_id(std::string_view session_id);

}  // namespace roost::agent
