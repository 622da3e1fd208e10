// `roost demo`: the demo job on a running stack.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include "cli/demo_job.h"
#include "core/config.h"

namespace roost::cli {

// Runs the job with live lines and a table on standard output, then the report as JSON where `as_json`. True when all
// went well.
asio::awaitable<bool> show_demo(asio::any_io_executor executor, DemoSpec spec, bool as_json);

int run_demo(const Config& config);

}  // namespace roost::cli
