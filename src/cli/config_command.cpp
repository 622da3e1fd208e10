#include "cli/config_command.h"

#include <fmt/format.h>

namespace roost::cli {

std::string render_config(const Config& config) {
  std::string out = fmt::format("{:28} {:36} {}\n", "SETTING", "VALUE", "FROM");
  for (const Setting& setting : settings()) {
    if ((setting.commands & config.command()) == 0U) continue;
    const std::string value = config.printable(setting);
    const Source source = config.source(setting.name);
    std::string from(to_string(source));
    if (source == Source::environment) from += fmt::format(" {}", setting.env);
    out += fmt::format("{:28} {:36} {}\n", setting.name, value.empty() ? "(unset)" : value, from);
  }
  return out;
}

}  // namespace roost::cli
