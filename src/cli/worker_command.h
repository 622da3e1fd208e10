// `roost worker`: runs agent turns, on sockets that a host hands over or, with --listen, on its own port.
#pragma once

#include "core/config.h"

namespace roost::cli {

// Serves until drained. The process's exit code: 0 after a clean stop, 78 for a setting that cannot work.
int run_worker(const Config& config);

}  // namespace roost::cli
