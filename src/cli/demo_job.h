// The demo job: one task fans out to several agents that share one pool. The pool is made at the engine from the task's
// context (system text and tools); each agent's turn goes through the host to a worker, which calls the engine; the
// first agent runs a tool call in a sandbox. The report holds what the engine measured, nothing is assumed.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>

#include "cli/demo_report.h"
#include "core/result.h"

namespace roost::cli {

namespace asio = boost::asio;

struct DemoSpec {
  std::string engine_url;
  std::string host_url;
  std::string engine_api_key;
  int agents = 4;
};

// Runs the job. `on_change` sees the state whenever something moved. The pool and the sessions are released at the end.
// An error of one agent is in its report; Error only when the job could not run at all.
asio::awaitable<Result<DemoReport>> run_demo_job(asio::any_io_executor executor, DemoSpec spec,
                                                 std::function<void(const DemoReport&)> on_change);

}  // namespace roost::cli
