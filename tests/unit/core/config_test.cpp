#include "core/config.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace roost {
namespace {

using EnvMap = std::map<std::string, std::string, std::less<>>;

Config::Environment environment(EnvMap values) {
  return [values = std::move(values)](std::string_view name) -> std::optional<std::string> {
    const auto it = values.find(name);
    return it == values.end() ? std::nullopt : std::optional(it->second);
  };
}

Result<Config> load(Command command, const Config::Flags& flags, EnvMap env, std::string_view file = "") {
  return Config::load(command, flags, environment(std::move(env)), file, "roost.toml");
}

TEST(ConfigTable, NamesAndVariablesAreUniqueAndDefaultsAreLegal) {
  std::set<std::string_view> names;
  std::set<std::string_view> variables;
  for (const Setting& s : settings()) {
    EXPECT_TRUE(names.insert(s.name).second) << s.name;
    if (!s.env.empty()) {
      EXPECT_TRUE(variables.insert(s.env).second) << s.env;
    }
    EXPECT_NE(s.name.find('.'), std::string_view::npos) << s.name;
    EXPECT_FALSE(s.help.empty()) << s.name;
    EXPECT_TRUE(check_value(s, s.default_value, "default").ok()) << s.name;
  }
}

TEST(ConfigTable, AFlagMeansOneThingUnderEachSubcommand) {
  for (unsigned bit = 1; bit <= kDemo; bit <<= 1U) {
    std::set<std::string_view> flags;
    for (const Setting& s : settings()) {
      if ((s.commands & bit) == 0U) continue;
      const std::string_view flag = bit == kUp && !s.up_flag.empty() ? s.up_flag : s.flag;
      EXPECT_TRUE(flags.insert(flag.substr(flag.find("--"))).second) << flag << " twice for command bit " << bit;
    }
  }
}

TEST(Config, FlagBeatsEnvironmentBeatsFileBeatsDefault) {
  const std::string_view file = "[host]\nport = 1\nworkers = 3\nturns_per_worker = 4\n";
  auto config = load(kHost, {{"host.port", "7"}}, {{"PORT", "5"}, {"SH_WORKERS", "6"}}, file);
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->integer("host.port"), 7);
  EXPECT_EQ(config->source("host.port"), Source::flag);
  EXPECT_EQ(config->integer("host.workers"), 6);
  EXPECT_EQ(config->source("host.workers"), Source::environment);
  EXPECT_EQ(config->integer("host.turns_per_worker"), 4);
  EXPECT_EQ(config->source("host.turns_per_worker"), Source::file);
  EXPECT_EQ(config->integer("host.admin_port"), 8081);
  EXPECT_EQ(config->source("host.admin_port"), Source::default_value);
}

TEST(Config, ABadValueNamesTheSettingTheValueTheSourceAndTheRange) {
  for (const char* bad : {"12abc", "1.5", "-1", "0", "65536", "0x10", "1 2"}) {
    auto config = load(kHost, {}, {{"SH_TURNS_PER_WORKER", bad}});
    ASSERT_FALSE(config.ok()) << bad;
    EXPECT_EQ(config.error().kind, ErrorKind::bad_config);
    EXPECT_EQ(config.error().message, std::string("host.turns_per_worker: bad value '") + bad +
                                          "' (from SH_TURNS_PER_WORKER); accepted: a whole number from 1 to 65535");
  }
  auto choice = load(kHost, {}, {{"SH_ROUTING_POLICY", "random"}});
  ASSERT_FALSE(choice.ok());
  EXPECT_NE(choice.error().message.find("leastInFlight|stickyBySession"), std::string::npos);
}

TEST(Config, ValuesAreTrimmedAndBlankIsUnset) {
  auto config = load(kHost, {}, {{"PORT", "  9 "}, {"SH_WORKERS", "   "}});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->integer("host.port"), 9);
  EXPECT_FALSE(config->is_set("host.workers"));
}

TEST(Config, AVariableOfAnotherCommandIsNotRead) {
  auto config = load(kEngine, {}, {{"PORT", "nonsense"}});
  EXPECT_TRUE(config.ok());
}

TEST(Config, AMisspelledSettingInTheFileIsAnError) {
  auto config = load(kUp, {}, {}, "[engine]\nparalell = 4\n");
  ASSERT_FALSE(config.ok());
  EXPECT_NE(config.error().message.find("unknown setting 'engine.paralell'"), std::string::npos);
  EXPECT_FALSE(load(kUp, {}, {}, "port = 1\n").ok());
  EXPECT_FALSE(load(kUp, {}, {}, "[engine\n").ok());
  EXPECT_FALSE(load(kUp, {}, {}, "[engine]\nctx = [1]\n").ok());
}

TEST(Config, SecretsAreNotPrinted) {
  auto config = load(kEngine, {}, {{"ROOST_API_KEY", "hunter2"}});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->printable(*find_setting("engine.api_key")), "***");
  EXPECT_EQ(commented_toml(*config).find("hunter2"), std::string::npos);
}

TEST(Config, TheWrittenFileReadsBackToTheSameValues) {
  auto config = load(kUp, {{"host.turns_per_worker", "16"}, {"engine.model", "/a \"b\"\\c.gguf"}}, {});
  ASSERT_TRUE(config.ok());
  auto again = load(kUp, {}, {}, commented_toml(*config));
  ASSERT_TRUE(again.ok()) << again.error().message;
  for (const Setting& s : settings()) EXPECT_EQ(config->printable(s), again->printable(s)) << s.name;
}

TEST(Config, AChildSeesTheSameValuesThroughItsEnvironment) {
  auto config = load(kUp, {{"engine.parallel", "3"}}, {{"ROOST_CTX_SIZE", "4096"}});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->as_environment(kEngine), (std::vector<std::string>{"ROOST_CTX_SIZE=4096", "ROOST_PARALLEL=3"}));
}

TEST(Config, TheManualNamesEverySetting) {
  const std::string manual = settings_manual();
  for (const Setting& s : settings()) EXPECT_NE(manual.find(s.name), std::string::npos) << s.name;
}

}  // namespace
}  // namespace roost
