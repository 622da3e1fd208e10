// `roost sandbox`: executes tool calls in isolated workspaces.
#pragma once

#include "core/config.h"

namespace roost::cli {

// Serves until SIGTERM or SIGINT; must be called before the process has threads. Logs {"event":"sandbox ready"} when it
// is attached for the first time. The process's exit code: 0 after a clean stop, 78 for a setting that cannot work,
// above all an isolation that this machine does not allow.
int run_sandbox(const Config& config);

}  // namespace roost::cli
