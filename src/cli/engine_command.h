// `roost engine`: the inference server.
#pragma once

#include "core/config.h"

namespace roost::cli {

// Serves until SIGTERM, SIGINT or POST /shutdown. The process's exit code: 0 after a clean stop, 78 for a model or
// setting that cannot work (with the reason on standard error).
int run_engine(const Config& config);

}  // namespace roost::cli
