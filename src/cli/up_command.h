// `roost up`: everything on one box from one configuration.
#pragma once

#include <string>

#include "core/config.h"

namespace roost::cli {

// `settings_file` is where a commented roost.toml is written when there is none.
int run_up(const Config& config, const std::string& settings_file);

}  // namespace roost::cli
