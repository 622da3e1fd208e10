#include "cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <sstream>

#include "cli/exit_code.h"
#include "core/version.h"

namespace roost::cli {
namespace {

struct Subcommand {
  std::string_view name;
  std::string_view help;
};
constexpr Subcommand kSubcommands[] = {
    {"up", "Start everything on one box: Redis, engine, relay, sandboxes, host (the usual way in)"},
    {"demo", "Run the demo job on a running stack: one task, several agents, one shared pool"},
    {"engine", "The inference server: shared-prefix pools, OpenAI and llama-server compatible routes"},
    {"host", "The supervisor: accepts turns, hands their sockets to workers, refuses when full"},
    {"worker", "Runs agent turns; started by the host, or alone with --listen"},
    {"relay", "The meeting point of workers and sandboxes (gRPC)"},
    {"sandbox", "Runs tool calls in isolated workspaces; attaches to a relay"},
};

// llama-server spells some short flags with several letters, which CLI11 does not take.
constexpr std::pair<std::string_view, std::string_view> kAliases[] = {{"-ub", "--ubatch-size"},
                                                                      {"-ngl", "--gpu-layers"}};

std::string_view group_of(const Setting& setting) { return setting.name.substr(0, setting.name.find('.')); }

// "-c,--ctx-size" without spellings that CLI11 cannot take.
std::string cli11_names(std::string_view flag) {
  std::string names;
  std::stringstream parts{std::string(flag)};
  for (std::string part; std::getline(parts, part, ',');) {
    if (part.starts_with("--") || part.size() == 2) names += (names.empty() ? "" : ",") + part;
  }
  return names;
}

std::string help_text(const Setting& setting) {
  std::string text(setting.help);
  if (!setting.choices.empty()) text += " {" + std::string(setting.choices) + "}";
  if (!setting.default_value.empty()) text += " [" + std::string(setting.default_value) + "]";
  if (!setting.env.empty()) text += " (env " + std::string(setting.env) + ")";
  return text;
}

void add_setting(CLI::App& app, const Setting& setting, std::string_view flag, Config::Flags& flags) {
  const std::string name(setting.name);
  const std::string names = cli11_names(flag);
  const std::string help = help_text(setting);
  if (setting.type == SettingType::boolean) {
    const std::string off = "--no-" + names.substr(names.find("--") + 2);
    app.add_flag_callback(
           names, [&flags, name] { flags[name] = "true"; }, help)
        ->group(std::string(group_of(setting)));
    app.add_flag_callback(
           off, [&flags, name] { flags[name] = "false"; }, "")
        ->group("");
    return;
  }
  app.add_option_function<std::string>(
         names, [&flags, name](const std::string& text) { flags[name] = text; }, help)
      ->group(std::string(group_of(setting)))
      ->type_name("");
}

}  // namespace

std::variant<Invocation, Leave> parse_command_line(std::vector<std::string> arguments) {
  for (std::string& argument : arguments) {
    for (const auto& [alias, flag] : kAliases) {
      if (argument == alias) argument = flag;
    }
  }

  Invocation invocation;
  CLI::App app{
      "Roost runs many LLM agents densely on one machine: shared prompt prefixes are computed and stored once."};
  app.name("roost");
  app.set_version_flag("--version", std::string("roost ") + kVersion);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);

  for (const auto& [name, help] : kSubcommands) {
    CLI::App* sub = app.add_subcommand(std::string(name), std::string(help));
    sub->add_option("--config", invocation.config_file, "settings file; default ./roost.toml if it is there");
    const Command command = *command_named(name);
    for (const Setting& setting : settings()) {
      if ((setting.commands & command) == 0U) continue;
      const bool renamed = command == kUp && !setting.up_flag.empty();
      add_setting(*sub, setting, renamed ? setting.up_flag : setting.flag, invocation.flags);
    }
  }
  CLI::App* config = app.add_subcommand("config", "Print the effective settings and where each comes from");
  config->add_option("--config", invocation.config_file, "settings file; default ./roost.toml if it is there");
  config->add_option("subcommand", invocation.subject, "only the settings of this subcommand")->type_name("");
  config->add_flag("--manual", invocation.manual, "print the whole table as Markdown instead");

  std::ranges::reverse(arguments);  // CLI11 takes them from the back
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& e) {
    std::ostringstream out;
    std::ostringstream err;
    const int code = app.exit(e, out, err);
    if (code == 0) return Leave{kExitOk, out.str()};
    return Leave{kExitUsage,
                 "roost: " + std::string(e.what()) + "\nRun `roost --help` or `roost SUBCOMMAND --help`.\n"};
  }
  invocation.command = app.get_subcommands().front()->get_name();
  return invocation;
}

}  // namespace roost::cli
