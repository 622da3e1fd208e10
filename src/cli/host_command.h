// `roost host`: the supervisor with its workers and the admin port.
#pragma once

#include "core/config.h"

namespace roost::cli {

// Serves until SIGTERM or SIGINT. Returns the exit code.
int run_host(const Config& config);

}  // namespace roost::cli
