// Tools for models whose chat template knows none: the tools are described in the system message, calls and results are
// written into ordinary messages, in the format that most open models have seen (<tools>, <tool_call>,
// <tool_response>). Pure.
#pragma once

#include <string>
#include <string_view>

#include "core/json.h"
#include "core/result.h"

namespace roost::engine {

inline constexpr std::string_view kToolCallOpen = "<tool_call>";
inline constexpr std::string_view kToolCallClose = "</tool_call>";

// Do the messages hold calls or results of tools?
bool mentions_tools(const json::array& messages);

// The same conversation in plain messages of system, user and assistant. `tools` may be empty (history only).
// Neighbouring user messages are joined: many templates demand that roles alternate.
json::array describe_tools(const json::array& messages, const json::array& tools);

}  // namespace roost::engine
