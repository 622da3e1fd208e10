// Logs: one JSON object per line on standard error ({"ts":..., "level":..., "part":..., "event":..., fields...}), or
// text for people. Never a prompt, a token or a credential. Thread-safe. A write error is ignored: a full disk or a
// closed pipe never ends the process.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "core/field.h"

namespace roost::log {

enum class Level { debug, info, warn, error };
enum class Format { json, text };

// Call once at start. `part` names the process in each line: "engine", "host", "worker-1", ...
void init(std::string part, Format format, Level level);

void write(Level level, std::string_view event, std::initializer_list<Field> fields);

inline void debug(std::string_view event, std::initializer_list<Field> fields = {}) {
  write(Level::debug, event, fields);
}
inline void info(std::string_view event, std::initializer_list<Field> fields = {}) {
  write(Level::info, event, fields);
}
inline void warn(std::string_view event, std::initializer_list<Field> fields = {}) {
  write(Level::warn, event, fields);
}
inline void error(std::string_view event, std::initializer_list<Field> fields = {}) {
  write(Level::error, event, fields);
}

// One line as write() forms it, without the newline; for tests.
std::string format_line(Format format, Level level, std::string_view part, double unix_seconds, std::string_view event,
                        std::initializer_list<Field> fields);

}  // namespace roost::log
