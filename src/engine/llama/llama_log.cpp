#include "engine/llama/llama_log.h"

#include <llama.h>
#include <log.h>

#include <deque>
#include <mutex>

#include "core/log.h"

namespace roost::engine {
namespace {

constexpr std::size_t kKeptErrors = 8;

// The libraries know one callback for the process, so this is one object for the process. Leaked: ggml may log at exit.
struct LogSink {
  std::mutex mutex;
  std::string line;  // lines arrive in pieces
  ggml_log_level level = GGML_LOG_LEVEL_NONE;
  std::deque<std::string> errors;
};

LogSink& sink() {
  static auto* s = new LogSink;
  return *s;
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

void take_line(LogSink& s) {
  std::string text = trimmed(s.line);
  s.line.clear();
  if (text.empty()) return;
  if (s.level == GGML_LOG_LEVEL_ERROR) {
    s.errors.push_back(text);
    if (s.errors.size() > kKeptErrors) s.errors.pop_front();
  }
  // Errors and warnings of the library are about its own affairs; what concerns us comes back as an Error.
  log::debug("libllama", {{"level", static_cast<int>(s.level)}, {"text", text}});
}

void on_log(ggml_log_level level, const char* text, void* /*unused*/) {
  LogSink& s = sink();
  const std::lock_guard lock(s.mutex);
  if (level != GGML_LOG_LEVEL_CONT) s.level = level;
  s.line += text;
  if (!s.line.empty() && (s.line.back() == '\n' || s.line.size() > 4096)) take_line(s);
}

}  // namespace

void capture_llama_log() {
  static const bool once = [] {
    llama_log_set(on_log, nullptr);
    // libcommon's own log prints prompts and outputs; none of it may reach our log.
    common_log_pause(common_log_main());
    return true;
  }();
  static_cast<void>(once);
}

std::string take_llama_errors() {
  LogSink& s = sink();
  const std::lock_guard lock(s.mutex);
  std::string joined;
  for (const auto& e : s.errors) joined += (joined.empty() ? "" : "; ") + e;
  s.errors.clear();
  return joined;
}

}  // namespace roost::engine
