// Configuration: one table of settings (config_table.cpp) feeds flags, environment, file, `roost config`, /config and
// the manual. Sources in order: flag, environment, file (roost.toml), default. A bad value is Error bad_config with the
// setting's name, the value and the accepted range; the command line turns it into exit code 78.
//
// A Config is immutable after load() and may be read from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace roost {

// The subcommands that a setting belongs to, as bits.
enum Command : unsigned {
  kEngine = 1U << 0U,
  kHost = 1U << 1U,
  kWorker = 1U << 2U,
  kRelay = 1U << 3U,
  kSandbox = 1U << 4U,
  kUp = 1U << 5U,
  kDemo = 1U << 6U,
  kEveryCommand = ~0U,
};

// The subcommand of that name; empty when there is none with settings.
std::optional<Command> command_named(std::string_view name);

enum class SettingType { boolean, integer, number, text, choice };

struct Setting {
  std::string_view name;     // "engine.parallel"; the part before the dot is the table in roost.toml
  std::string_view flag;     // "-m,--model"; a boolean also takes --no-<name>
  std::string_view up_flag;  // its spelling under `roost up`; empty = as `flag`
  std::string_view env;      // empty = none
  SettingType type;
  std::string_view default_value;  // empty = unset
  double min = 0;                  // of integer and number
  double max = 0;
  std::string_view choices;  // of choice: "a|b|c"
  unsigned commands;         // Command bits
  bool secret = false;       // never printed
  std::string_view help;
};

// Every setting, in the order of the manual.
std::span<const Setting> settings();
const Setting* find_setting(std::string_view name);

enum class Source { default_value, file, environment, flag };
std::string_view to_string(Source source);

class Config {
 public:
  // Values given on the command line, by setting name.
  using Flags = std::map<std::string, std::string, std::less<>>;
  // The environment; tests pass their own.
  using Environment = std::function<std::optional<std::string>(std::string_view name)>;

  static Environment process_environment();

  // Reads the effective values for `command`. `file_text` is the content of `file_name` (roost.toml); an unknown key or
  // table in it is an error, so that a misspelling does not pass silently.
  static Result<Config> load(Command command, const Flags& flags, const Environment& environment,
                             std::string_view file_text, std::string_view file_name);

  // The accessors take a setting's name; an unknown name or another type is a broken invariant.
  bool flag(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  // Empty when unset.
  const std::string& text(std::string_view name) const;
  // Is there a value, from any source (a default counts)?
  bool is_set(std::string_view name) const;
  Source source(std::string_view name) const;

  // A copy in which a setting that has no value takes `text` (legal by the table), as if the file had said it.
  Config with_fallback(std::string_view name, std::string_view text) const;

  // The values as the environment of a child process that shall see the same: NAME=value for each setting of `command`
  // that has an environment variable and did not come from its default.
  std::vector<std::string> as_environment(Command command) const;

  // The value as text, "***" for a set secret.
  std::string printable(const Setting& setting) const;
  Command command() const { return command_; }

 private:
  struct Value {
    std::string text;
    Source source = Source::default_value;
  };
  const Value& value_of(std::string_view name, SettingType type) const;

  Command command_ = kEveryCommand;
  std::map<std::string, Value, std::less<>> values_;
};

// `text` as a value of `setting`, trimmed: the normal form, or bad_config with the accepted range. Blank = unset
// (empty).
Result<std::string> check_value(const Setting& setting, std::string_view text, std::string_view where);

// The table as the manual's Markdown, grouped by part.
std::string settings_manual();

// A commented roost.toml with the values of `config` that are not defaults set, all others commented out.
std::string commented_toml(const Config& config);

}  // namespace roost
