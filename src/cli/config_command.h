// `roost config`: the effective settings and where each comes from.
#pragma once

#include <string>

#include "core/config.h"

namespace roost::cli {

// The settings of `config`'s command as an aligned table: name, value, source.
std::string render_config(const Config& config);

}  // namespace roost::cli
