// The tools offered to the model: bash, read, write, ls, each as a command that runs in the turn's sandbox. Never in
// the worker.
//
// What goes wrong in a tool is told to the model, not to the client: bad arguments, a failed or cut command, a sandbox
// that went away are results with is_error. Only an abort ends the turn.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "agent/model_client.h"
#include "agent/sandbox_port.h"
#include "core/json.h"

namespace roost::agent {

struct ToolOutcome {
  std::string text;  // valid UTF-8, at most limits::kToolOutputBytes and a marker
  bool is_error = false;
};

// Where a call runs.
struct ToolContext {
  SandboxSeat* seat = nullptr;
  std::string workspace_key;           // the session's
  std::chrono::seconds timeout{1800};  // of one call; 0 = none
};

// What is left of an output that is too long: its beginning, or its beginning and its end.
enum class OutputCut { head, middle };

// One tool: its schema, and how a call becomes a command.
struct Tool {
  std::string_view name;
  std::string_view description;
  std::string_view parameters;  // JSON Schema
  // Fills spec.command and spec.stdin_bytes (and may lower spec.timeout), or says what is wrong with the arguments.
  Result<void> (*to_command)(const ObjectReader& arguments, sandbox::ExecSpec& spec);
  OutputCut cut;
};

std::span<const Tool> all_tools();
const Tool* find_tool(std::string_view name);

// The tools of a request's `tools` array: each a name, or {"name", "description"?, "parameters"?} to offer the tool
// with a narrower schema (how its arguments are carried out stays the same). In the registry's order, whatever theirs,
// so that equal sets make equal prompts. invalid_request for an unknown name (it lists the known ones), one named
// twice, or a schema that is not an object or too long.
Result<std::vector<ToolSchema>> read_tools(const json::array& tools);
std::vector<ToolSchema> all_tool_schemas();

// The same in OpenAI's shape, exactly as a turn with these `tools` sends them: what a pool for such turns is made from.
Result<json::array> tool_definitions(const json::array& tools);

asio::awaitable<ToolOutcome> run_tool(ToolCall call, ToolContext context, AbortSource& abort);

// 'it'\''s': one word for bash, whatever is in it (but NUL, which no argument can hold).
std::string shell_quote(std::string_view text);

// A command's outcome as the model reads it. Pure.
ToolOutcome to_tool_outcome(const sandbox::ExecOutcome& outcome, OutputCut cut);
// At most `limit` bytes of valid UTF-8 and a marker where something is missing.
std::string cap_output(std::string text, std::size_t limit, OutputCut cut);

}  // namespace roost::agent
