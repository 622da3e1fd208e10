// What the demo job found: per agent and in sum. Plain values; the figures come from the engine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace roost::cli {

enum class AgentPhase { waiting, prefill, decode, tool, done, failed };
std::string_view to_string(AgentPhase phase);

struct AgentReport {
  std::string role;
  std::string session_id;
  AgentPhase phase = AgentPhase::waiting;
  std::int64_t shared = 0;     // tokens taken from the pool by the agent's first model call
  std::int64_t prefilled = 0;  // tokens computed for its prompts, over all of its model calls
  std::int64_t prompt = 0;     // tokens of its prompts that it would have paid for alone: prefilled + shared
  std::int64_t decoded = 0;    // tokens drawn
  double tps = 0;              // experienced tokens/s: live while it runs, then of its last model call
  double wall_s = 0;
  std::string tool;         // "bash: ls -la" when it ran one
  std::string tool_output;  // the first line of what came back
  bool tool_failed = false;
  std::string text;   // its answer
  std::string error;  // empty = none
};

struct DemoReport {
  std::string model;
  std::int64_t pool_id = -1;
  std::int64_t pool_len = 0;        // tokens of the shared prefix
  std::int64_t pool_prefilled = 0;  // computed once to make the pool
  std::vector<AgentReport> agents;
  double wall_s = 0;

  std::int64_t prefilled() const;        // in all, the pool included
  std::int64_t without_sharing() const;  // what the same prompts would have cost without the pool
  bool ok() const;                       // every agent ended well, and the tool call ran
  json::object to_json() const;
};

}  // namespace roost::cli
