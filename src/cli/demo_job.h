// The demo job: one task fans out to several agents that share one pool. The pool is made at the engine from the task's context
// (system text and tools); each agent's turn goes through the host to a worker, which calls the engine; the first agent runs a
// tool call in a sandbox. The report holds what the engine measured, nothing is assumed.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/result.h"

namespace roost::cli {

namespace asio = boost::asio;

struct DemoSpec {
  std::string engine_url;
  std::string host_url;
  std::string engine_api_key;
  int agents = 4;
};

enum class AgentPhase { waiting, prefill, decode, tool, done, failed };
std::string_view to_string(AgentPhase phase);

struct AgentReport {
  std::string role;
  std::string session_id;
  AgentPhase phase = AgentPhase::waiting;
  std::int64_t shared = 0;      // tokens taken from the pool by the agent's first model call
  std::int64_t prefilled = 0;   // tokens computed for its prompts, over all of its model calls
  std::int64_t prompt = 0;      // tokens of its prompts that it would have paid for alone: prefilled + shared
  std::int64_t decoded = 0;     // tokens drawn
  double tps = 0;               // experienced tokens/s: live while it runs, then of its last model call
  double wall_s = 0;
  std::string tool;             // "bash: ls -la" when it ran one
  std::string tool_output;      // the first line of what came back
  bool tool_failed = false;
  std::string text;             // its answer
  std::string error;            // empty = none
};

struct DemoReport {
  std::string model;
  std::int64_t pool_id = -1;
  std::int64_t pool_len = 0;        // tokens of the shared prefix
  std::int64_t pool_prefilled = 0;  // computed once to make the pool
  std::vector<AgentReport> agents;
  double wall_s = 0;

  std::int64_t prefilled() const;         // in all, the pool included
  std::int64_t without_sharing() const;   // what the same prompts would have cost without the pool
  bool ok() const;                        // every agent ended well, and the tool call ran
  json::object to_json() const;
};

// Runs the job. `on_change` sees the state whenever something moved. The pool and the sessions are released at the end. An
// error of one agent is in its report; Error only when the job could not run at all.
asio::awaitable<Result<DemoReport>> run_demo_job(asio::any_io_executor executor, DemoSpec spec,
                                                 std::function<void(const DemoReport&)> on_change);

}  // namespace roost::cli
