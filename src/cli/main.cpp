// The roost executable: parses the command line, loads the settings, runs the subcommand.
#include <csignal>
#include <fstream>
#include <iostream>
#include <sstream>

#include "cli/config_command.h"
#include "cli/demo_command.h"
#include "cli/engine_command.h"
#include "cli/exit_code.h"
#include "cli/host_command.h"
#include "cli/options.h"
#include "cli/relay_command.h"
#include "cli/sandbox_command.h"
#include "cli/up_command.h"
#include "cli/worker_command.h"
#include "core/log.h"

namespace roost::cli {
namespace {

constexpr std::string_view kDefaultFile = "roost.toml";

Result<std::string> read_settings_file(const std::string& chosen) {
  const std::string path = chosen.empty() ? std::string(kDefaultFile) : chosen;
  std::ifstream file(path);
  if (!file) {
    if (chosen.empty()) return std::string{};
    return {ErrorKind::bad_config, "--config " + path + " cannot be read"};
  }
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void init_log(const std::string& part, const Config& config) {
  // `up` and `demo` talk to people on standard output; of their own log only what is wrong is shown, unless asked for.
  const bool for_people = (part == "up" || part == "demo") && config.source("log.level") == Source::default_value;
  const std::string level = for_people ? "warn" : config.text("log.level");
  log::init(part, config.text("log.format") == "text" ? log::Format::text : log::Format::json,
            level == "debug"   ? log::Level::debug
            : level == "warn"  ? log::Level::warn
            : level == "error" ? log::Level::error
                               : log::Level::info);
}

int run(const Invocation& invocation) {
  if (invocation.command == "config" && invocation.manual) {
    std::cout << settings_manual();
    return kExitOk;
  }
  Command command = kEveryCommand;
  const std::string& about = invocation.command == "config" ? invocation.subject : invocation.command;
  if (!about.empty()) {
    const auto named = command_named(about);
    if (!named)
      return report_failure("config", {ErrorKind::bad_config, "no subcommand '" + about + "' with settings", {}, {}});
    command = *named;
  }
  auto file = read_settings_file(invocation.config_file);
  if (!file) return report_failure(invocation.command, file.error());
  const std::string file_name = invocation.config_file.empty() ? std::string(kDefaultFile) : invocation.config_file;
  auto config = Config::load(command, invocation.flags, Config::process_environment(), *file, file_name);
  if (!config) return report_failure(invocation.command, config.error());

  if (invocation.command == "config") {
    std::cout << render_config(*config);
    return kExitOk;
  }
  init_log(invocation.command, *config);
  if (invocation.command == "engine") return run_engine(*config);
  if (invocation.command == "host") return run_host(*config);
  if (invocation.command == "worker") return run_worker(*config);
  if (invocation.command == "relay") return run_relay(*config);
  if (invocation.command == "sandbox") return run_sandbox(*config);
  if (invocation.command == "demo") return run_demo(*config);
  return run_up(*config, file_name);
}

}  // namespace

}  // namespace roost::cli

int main(int argc, char** argv) {
  // A reader that went away (a closed pipe, a client) is an error of that write, never the end of the process.
  std::signal(SIGPIPE, SIG_IGN);
  auto parsed = roost::cli::parse_command_line(std::vector<std::string>(argv + 1, argv + argc));
  if (const auto* leave = std::get_if<roost::cli::Leave>(&parsed)) {
    (leave->code == 0 ? std::cout : std::cerr) << leave->text;
    return leave->code;
  }
  return roost::cli::run(std::get<roost::cli::Invocation>(parsed));
}
