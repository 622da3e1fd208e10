// `roost relay`: the meeting point of workers and sandboxes.
#pragma once

#include "core/config.h"

namespace roost::cli {

// Serves until SIGTERM or SIGINT. Logs {"event":"relay ready","port":N,"exec_port":N} when both listeners are open. The
// process's exit code: 0 after a clean stop, 78 for a setting that cannot work (a port in use, equal tokens, ...).
int run_relay(const Config& config);

}  // namespace roost::cli
