// Runs the tool calls of one model reply in parallel and waits for all of them: none is left running when this returns,
// also after an abort (which kills the commands).
#pragma once

#include <functional>
#include <vector>

#include "agent/tools.h"

namespace roost::agent {

// What one call came to, in the order of the calls. `on_finished` is awaited once per call, as they finish, one at a
// time.
using OnToolFinished = std::function<asio::awaitable<void>(std::size_t index, const ToolOutcome& outcome)>;

// `offered` are the tools that this turn may use; another call is told so. `context.seat` may be null when none is
// offered.
asio::awaitable<std::vector<ToolOutcome>> run_tool_batch(asio::any_io_executor executor, std::vector<ToolCall> calls,
                                                         std::vector<ToolSchema> offered, ToolContext context,
                                                         AbortSource& abort, OnToolFinished on_finished);

}  // namespace roost::agent
