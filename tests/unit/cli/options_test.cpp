#include "cli/options.h"

#include <gtest/gtest.h>

#include "cli/exit_code.h"

namespace roost::cli {
namespace {

Invocation parsed(std::vector<std::string> arguments) {
  auto result = parse_command_line(std::move(arguments));
  EXPECT_TRUE(std::holds_alternative<Invocation>(result)) << std::get<Leave>(result).text;
  return std::get<Invocation>(result);
}

Leave left(std::vector<std::string> arguments) {
  auto result = parse_command_line(std::move(arguments));
  EXPECT_TRUE(std::holds_alternative<Leave>(result));
  return std::holds_alternative<Leave>(result) ? std::get<Leave>(result) : Leave{-1, {}};
}

TEST(Options, FlagsBecomeSettings) {
  const auto i =
      parsed({"engine", "-m", "x.gguf", "--parallel=3", "-c", "4096", "--no-auto-share", "--config", "f.toml"});
  EXPECT_EQ(i.command, "engine");
  EXPECT_EQ(i.config_file, "f.toml");
  EXPECT_EQ(i.flags, (Config::Flags{{"engine.model", "x.gguf"},
                                    {"engine.parallel", "3"},
                                    {"engine.ctx", "4096"},
                                    {"engine.auto_share", "false"}}));
}

TEST(Options, LlamaServersShortFlagsOfSeveralLettersWork) {
  EXPECT_EQ(parsed({"engine", "-ngl", "7", "-ub", "64"}).flags,
            (Config::Flags{{"engine.gpu_layers", "7"}, {"engine.ubatch", "64"}}));
}

TEST(Options, UnderUpAPortIsTheHostsAndTheEnginesHasItsOwnName) {
  EXPECT_EQ(parsed({"up", "--port", "1", "--engine-port", "2", "--relay-port", "3"}).flags,
            (Config::Flags{{"host.port", "1"}, {"engine.port", "2"}, {"relay.port", "3"}}));
}

TEST(Options, WhatIsNotThereIsAUsageError) {
  EXPECT_EQ(left({"engine", "--nope"}).code, kExitUsage);
  EXPECT_EQ(left({"nope"}).code, kExitUsage);
  EXPECT_EQ(left({}).code, kExitUsage);
  EXPECT_EQ(left({"host", "--parallel", "3"}).code, kExitUsage) << "a flag of another subcommand";
}

TEST(Options, HelpAndVersionEndWell) {
  EXPECT_EQ(left({"--version"}).code, kExitOk);
  const Leave help = left({"engine", "--help"});
  EXPECT_EQ(help.code, kExitOk);
  for (const Setting& s : settings()) {
    if ((s.commands & kEngine) == 0U) continue;
    EXPECT_NE(help.text.find(s.flag.substr(s.flag.find("--"))), std::string::npos) << s.name << " is not in the help";
  }
}

}  // namespace
}  // namespace roost::cli
