#include "core/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <sstream>
#define TOML_EXCEPTIONS 1
#include <toml++/toml.h>

#include "core/check.h"

namespace roost {
namespace {

struct CommandName {
  std::string_view name;
  Command command;
};
constexpr CommandName kCommands[] = {{"engine", kEngine},   {"host", kHost}, {"worker", kWorker}, {"relay", kRelay},
                                     {"sandbox", kSandbox}, {"up", kUp},     {"demo", kDemo}};

std::string_view trim(std::string_view s) {
  const auto first = s.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return s.substr(first, s.find_last_not_of(" \t\r\n") - first + 1);
}

Error bad_value(const Setting& setting, std::string_view text, std::string_view where, std::string_view accepted) {
  const std::string_view shown = setting.secret ? "***" : text;
  return {ErrorKind::bad_config,
          fmt::format("{}: bad value '{}' (from {}); accepted: {}", setting.name, shown, where, accepted),
          {},
          {}};
}

std::string range_text(const Setting& setting) {
  const std::string_view what = setting.type == SettingType::integer ? "a whole number" : "a number";
  if (setting.max >= 9.0e15) return fmt::format("{} of at least {}", what, setting.min);
  return fmt::format("{} from {} to {}", what, setting.min, setting.max);
}

bool is_choice(std::string_view choices, std::string_view text) {
  while (!choices.empty()) {
    const auto bar = choices.find('|');
    if (choices.substr(0, bar) == text) return true;
    choices = bar == std::string_view::npos ? std::string_view{} : choices.substr(bar + 1);
  }
  return false;
}

std::string_view long_flag(const Setting& setting, bool under_up) {
  std::string_view flag = under_up && !setting.up_flag.empty() ? setting.up_flag : setting.flag;
  const auto at = flag.find("--");
  return at == std::string_view::npos ? flag : flag.substr(at);
}

// One scalar of a TOML file as text.
std::optional<std::string> scalar_text(const toml::node& node) {
  if (const auto* s = node.as_string()) return s->get();
  if (const auto* b = node.as_boolean()) return b->get() ? "true" : "false";
  if (const auto* i = node.as_integer()) return std::to_string(i->get());
  if (const auto* f = node.as_floating_point()) return fmt::format("{}", f->get());
  return std::nullopt;
}

using FileValues = std::map<std::string, std::string, std::less<>>;

Result<FileValues> read_file_values(std::string_view text, std::string_view file_name) {
  FileValues values;
  toml::table root;
  try {
    root = toml::parse(text, file_name);
  } catch (const toml::parse_error& e) {
    return {ErrorKind::bad_config, fmt::format("{}:{}: {}", file_name, e.source().begin.line, e.description())};
  }
  for (const auto& [table_name, node] : root) {
    const auto* table = node.as_table();
    if (table == nullptr) {
      return {ErrorKind::bad_config, fmt::format("{}: '{}' stands outside of a [table]", file_name, table_name.str())};
    }
    for (const auto& [key, value] : *table) {
      std::string name = fmt::format("{}.{}", table_name.str(), key.str());
      if (find_setting(name) == nullptr) {
        return {ErrorKind::bad_config,
                fmt::format("{}: unknown setting '{}' (`roost config` lists them)", file_name, name)};
      }
      auto scalar = scalar_text(value);
      if (!scalar) return {ErrorKind::bad_config, fmt::format("{}: '{}' must be a single value", file_name, name)};
      values.emplace(std::move(name), *std::move(scalar));
    }
  }
  return values;
}

std::string toml_literal(const Setting& setting, const std::string& text) {
  if (setting.type == SettingType::text || setting.type == SettingType::choice) {
    std::string quoted = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') quoted.push_back('\\');
      quoted.push_back(c);
    }
    return quoted + "\"";
  }
  return text;
}

std::string_view group_of(const Setting& setting) { return setting.name.substr(0, setting.name.find('.')); }

}  // namespace

std::optional<Command> command_named(std::string_view name) {
  for (const auto& c : kCommands) {
    if (c.name == name) return c.command;
  }
  return std::nullopt;
}

const Setting* find_setting(std::string_view name) {
  const auto all = settings();
  const auto it = std::ranges::find(all, name, &Setting::name);
  return it == all.end() ? nullptr : &*it;
}

std::string_view to_string(Source source) {
  switch (source) {
    case Source::default_value:
      return "default";
    case Source::file:
      return "file";
    case Source::environment:
      return "environment";
    case Source::flag:
      return "flag";
  }
  return "default";
}

Result<std::string> check_value(const Setting& setting, std::string_view text, std::string_view where) {
  text = trim(text);
  if (text.empty()) return std::string{};
  switch (setting.type) {
    case SettingType::text:
      return std::string(text);
    case SettingType::choice:
      if (!is_choice(setting.choices, text)) return bad_value(setting, text, where, setting.choices);
      return std::string(text);
    case SettingType::boolean:
      if (text == "true" || text == "1" || text == "on" || text == "yes") return std::string("true");
      if (text == "false" || text == "0" || text == "off" || text == "no") return std::string("false");
      return bad_value(setting, text, where, "true or false (1/0, on/off, yes/no)");
    case SettingType::integer: {
      std::int64_t n = 0;
      const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), n);
      if (ec != std::errc{} || end != text.data() + text.size() || static_cast<double>(n) < setting.min ||
          static_cast<double>(n) > setting.max) {
        return bad_value(setting, text, where, range_text(setting));
      }
      return std::to_string(n);
    }
    case SettingType::number: {
      double n = 0;
      const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), n);
      if (ec != std::errc{} || end != text.data() + text.size() || !(n >= setting.min && n <= setting.max)) {
        return bad_value(setting, text, where, range_text(setting));
      }
      return fmt::format("{}", n);
    }
  }
  return std::string{};
}

Config::Environment Config::process_environment() {
  return [](std::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

Result<Config> Config::load(Command command, const Flags& flags, const Environment& environment,
                            std::string_view file_text, std::string_view file_name) {
  Config config;
  config.command_ = command;
  ROOST_TRY(file, read_file_values(file_text, file_name));

  for (const Setting& setting : settings()) {
    Value value{std::string(setting.default_value), Source::default_value};
    const auto take = [&](std::string_view text, Source source, std::string_view where) -> Result<void> {
      ROOST_TRY(checked, check_value(setting, text, where));
      if (!checked.empty()) value = Value{std::move(checked), source};
      return {};
    };
    if (const auto it = file.find(setting.name); it != file.end()) {
      ROOST_TRY_VOID(take(it->second, Source::file, file_name));
    }
    // A variable or flag of another command's setting is not this command's business.
    if ((setting.commands & command) != 0U) {
      if (!setting.env.empty()) {
        if (const auto text = environment(setting.env)) {
          ROOST_TRY_VOID(take(*text, Source::environment, setting.env));
        }
      }
      if (const auto it = flags.find(setting.name); it != flags.end()) {
        ROOST_TRY_VOID(take(it->second, Source::flag, long_flag(setting, command == kUp)));
      }
    }
    config.values_.emplace(setting.name, std::move(value));
  }
  return config;
}

const Config::Value& Config::value_of(std::string_view name, SettingType type) const {
  const Setting* setting = find_setting(name);
  ROOST_CHECK(setting != nullptr, "a setting is asked for that is not in the table");
  ROOST_CHECK(setting->type == type || (setting->type == SettingType::choice && type == SettingType::text),
              "a setting is read as another type");
  const auto it = values_.find(name);
  ROOST_CHECK(it != values_.end(), "a Config that was not loaded");
  return it->second;
}

bool Config::flag(std::string_view name) const { return value_of(name, SettingType::boolean).text == "true"; }

std::int64_t Config::integer(std::string_view name) const {
  const std::string& text = value_of(name, SettingType::integer).text;
  ROOST_CHECK(!text.empty(), "an unset integer; ask is_set() first");
  return std::strtoll(text.c_str(), nullptr, 10);
}

double Config::number(std::string_view name) const {
  const std::string& text = value_of(name, SettingType::number).text;
  ROOST_CHECK(!text.empty(), "an unset number; ask is_set() first");
  return std::strtod(text.c_str(), nullptr);
}

const std::string& Config::text(std::string_view name) const { return value_of(name, SettingType::text).text; }

bool Config::is_set(std::string_view name) const {
  const auto it = values_.find(name);
  ROOST_CHECK(it != values_.end(), "a setting is asked for that is not in the table");
  return !it->second.text.empty();
}

Source Config::source(std::string_view name) const {
  const auto it = values_.find(name);
  ROOST_CHECK(it != values_.end(), "a setting is asked for that is not in the table");
  return it->second.source;
}

Config Config::with_fallback(std::string_view name, std::string_view text) const {
  Config copy = *this;
  const auto it = copy.values_.find(name);
  ROOST_CHECK(it != copy.values_.end(), "a setting is asked for that is not in the table");
  if (it->second.text.empty()) it->second = Value{std::string(text), Source::file};
  return copy;
}

std::vector<std::string> Config::as_environment(Command command) const {
  std::vector<std::string> out;
  for (const Setting& setting : settings()) {
    if ((setting.commands & command) == 0U || setting.env.empty()) continue;
    const Value& value = values_.find(setting.name)->second;
    if (value.source != Source::default_value) out.push_back(fmt::format("{}={}", setting.env, value.text));
  }
  return out;
}

std::string Config::printable(const Setting& setting) const {
  const std::string& text = values_.find(setting.name)->second.text;
  return setting.secret && !text.empty() ? "***" : text;
}

std::string settings_manual() {
  std::string out;
  std::string_view group;
  for (const Setting& s : settings()) {
    if (group_of(s) != group) {
      group = group_of(s);
      out += fmt::format(
          "\n## [{}]\n\n| setting | flag | environment | values | default | meaning |\n|---|---|---|---|---|---|\n",
          group);
    }
    std::string values;
    switch (s.type) {
      case SettingType::boolean:
        values = "true, false";
        break;
      case SettingType::choice:
        values = s.choices;
        for (std::size_t at = 0; (at = values.find('|', at)) != std::string::npos; at += 2) values.replace(at, 1, ", ");
        break;
      case SettingType::integer:
      case SettingType::number:
        values = range_text(s);
        break;
      case SettingType::text:
        values = "text";
        break;
    }
    std::string flag(s.flag);
    if (!s.up_flag.empty()) flag += fmt::format(" (up: {})", s.up_flag);
    out += fmt::format("| {} | `{}` | {} | {} | {} | {} |\n", s.name, flag, s.env, values, s.default_value, s.help);
  }
  return out;
}

std::string commented_toml(const Config& config) {
  std::string out =
      "# Roost's settings. Order of precedence: flag, environment, this file, default. Lines that start with # show "
      "the\n"
      "# defaults. `roost config up` prints the effective values and where each comes from.\n";
  std::string_view group;
  for (const Setting& s : settings()) {
    if ((s.commands & config.command()) == 0U) continue;
    if (group_of(s) != group) {
      group = group_of(s);
      out += fmt::format("\n[{}]\n", group);
    }
    out += fmt::format("# {}\n", s.help);
    const std::string_view key = s.name.substr(s.name.find('.') + 1);
    const bool is_default = config.source(s.name) == Source::default_value;
    // Secrets stay out of files that are written for people; they come by environment or flag.
    const std::string value = s.secret ? "" : config.printable(s);
    out += fmt::format("{}{} = {}\n", is_default || s.secret ? "# " : "", key, toml_literal(s, value));
  }
  return out;
}

}  // namespace roost
