#include "core/log.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <boost/json.hpp>
#include <cmath>
#include <memory>

#include "core/clock.h"

namespace roost::log {
namespace {

struct State {
  std::shared_ptr<spdlog::logger> logger;
  std::string part = "roost";
  std::atomic<Format> format{Format::json};
  std::atomic<Level> level{Level::info};
};

State& state() {
  static State* s = [] {
    // Leaked on purpose: threads may log while static destructors run.
    auto* made = new State;
    made->logger = std::make_shared<spdlog::logger>("roost", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->logger->set_pattern("%v");
    made->logger->set_level(spdlog::level::trace);
    made->logger->flush_on(spdlog::level::trace);
    made->logger->set_error_handler([](const std::string&) {});
    return made;
  }();
  return *s;
}

std::string_view name(Level level) {
  switch (level) {
    case Level::debug:
      return "debug";
    case Level::info:
      return "info";
    case Level::warn:
      return "warn";
    case Level::error:
      return "error";
  }
  return "info";
}

boost::json::value to_json(const Field::Value& value) {
  return std::visit(
      [](const auto& v) -> boost::json::value {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(v)>, double>) {
          if (!std::isfinite(v)) return nullptr;
        }
        return boost::json::value_from(v);
      },
      value);
}

}  // namespace

void init(std::string part, Format format, Level level) {
  state().part = std::move(part);
  state().format = format;
  state().level = level;
}

std::string format_line(Format format, Level level, std::string_view part, double unix_seconds, std::string_view event,
                        std::initializer_list<Field> fields) {
  if (format == Format::text) {
    std::string line = fmt::format("{:.3f} {:5} {}: {}", unix_seconds, name(level), part, event);
    for (const Field& f : fields) line += fmt::format(" {}={}", f.name, boost::json::serialize(to_json(f.value)));
    return line;
  }
  boost::json::object object;
  object["level"] = name(level);
  object["part"] = part;
  object["event"] = event;
  for (const Field& f : fields) object[f.name] = to_json(f.value);
  // The time by hand: Boost.JSON writes it as 1.7E9, which is hard to read and to grep.
  return fmt::format("{{\"ts\":{:.3f},{}", unix_seconds, std::string_view(boost::json::serialize(object)).substr(1));
}

void write(Level level, std::string_view event, std::initializer_list<Field> fields) {
  State& s = state();
  if (level < s.level.load(std::memory_order_relaxed)) return;
  s.logger->info(fmt::runtime("{}"), format_line(s.format, level, s.part, SystemClock().unix_seconds(), event, fields));
}

}  // namespace roost::log
