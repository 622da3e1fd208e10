// The command line: subcommands and their flags, made from the configuration table.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "core/config.h"

namespace roost::cli {

// What the user asked for.
struct Invocation {
  std::string command;      // "engine", "up", "config", ...
  Config::Flags flags;      // setting name -> text
  std::string config_file;  // --config; empty = ./roost.toml if it is there
  std::string subject;      // of `roost config SUBJECT`
  bool manual = false;      // of `roost config --manual`
};

// Ends the process: help, version (exit code 0) or a usage error (64). The text is for standard output or error.
struct Leave {
  int code;
  std::string text;
};

std::variant<Invocation, Leave> parse_command_line(std::vector<std::string> arguments);

}  // namespace roost::cli
