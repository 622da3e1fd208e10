#include "cli/stack.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <deque>

#include "cli/exit_code.h"

namespace roost::cli {

using namespace std::chrono_literals;
using Time = std::chrono::steady_clock;

namespace {
constexpr std::size_t kTailLines = 8;  // of a part that failed, for the message
constexpr auto kFirstBackoff = 250ms;  // before a crashed part starts again; doubles
constexpr auto kLongestBackoff = 10s;
constexpr std::size_t kCrashesAllowed = 5;  // within kCrashWindow
constexpr auto kCrashWindow = 60s;
constexpr auto kPoll = 20ms;
}  // namespace

struct Stack::Part {
  PartSpec spec;
  std::unique_ptr<ChildProcess> process;
  std::deque<std::string> tail;  // last plain lines and error events
  std::optional<json::object> ready;
  std::optional<ChildExit> exit;
  bool started_once = false;
  bool told_to_stop = false;
  std::deque<Time::time_point> crashes;
};

struct Stack::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::any_io_executor ex, Callbacks cb) : executor(std::move(ex)), callbacks(std::move(cb)) {}

  asio::any_io_executor executor;
  Callbacks callbacks;
  std::vector<std::unique_ptr<Part>> parts;
  bool stopping = false;

  void take_line(Part& part, std::string_view line) {
    auto event = line.starts_with('{') ? parse_json_object(line) : Result<json::object>(ErrorKind::invalid_json, "");
    if (!event) return remember(part, line);
    const json::value* name = event->if_contains("event");
    const json::value* level = event->if_contains("level");
    if (name != nullptr && !part.spec.ready_event.empty() && *name == json::value(part.spec.ready_event)) {
      part.ready = *event;
    }
    if (level != nullptr && *level == json::value("error")) remember(part, line);
    if (callbacks.on_event) callbacks.on_event(part.spec.name, *event);
  }

  static void remember(Part& part, std::string_view line) {
    part.tail.emplace_back(line);
    if (part.tail.size() > kTailLines) part.tail.pop_front();
  }

  Result<void> launch(Part& part) {
    part.ready.reset();
    part.exit.reset();
    part.tail.clear();
    auto process = ChildProcess::start(
        executor, part.spec.child,
        [self = weak_from_this(), &part](std::string_view line) {
          if (auto impl = self.lock()) impl->take_line(part, line);
        },
        [self = weak_from_this(), &part](ChildExit exit) {
          if (auto impl = self.lock()) impl->on_exit(part, exit);
        });
    if (!process) return process.error();
    part.process = *std::move(process);
    return {};
  }

  void on_exit(Part& part, ChildExit exit) {
    part.exit = exit;
    if (stopping || !part.started_once) return;  // stop() and start() see it themselves
    const auto now = Time::now();
    part.crashes.push_back(now);
    while (now - part.crashes.front() > kCrashWindow) part.crashes.pop_front();
    if (part.crashes.size() > kCrashesAllowed) return fail(part, exit);
    const auto shift = part.crashes.size() - 1;
    const auto delay = std::min<std::chrono::milliseconds>(kFirstBackoff * (1 << shift), kLongestBackoff);
    if (callbacks.on_restart) callbacks.on_restart(part.spec.name, exit.describe(), delay);
    asio::co_spawn(executor, restart(shared_from_this(), part, delay), asio::detached);
  }

  static asio::awaitable<void> restart(std::shared_ptr<Impl> self, Part& part, std::chrono::milliseconds delay) {
    asio::steady_timer timer(self->executor, delay);
    co_await timer.async_wait(asio::use_awaitable);
    if (self->stopping) co_return;
    if (auto launched = self->launch(part); !launched) {
      if (self->callbacks.on_failed) self->callbacks.on_failed(launched.error());
    }
  }

  void fail(Part& part, ChildExit exit) {
    if (callbacks.on_failed) callbacks.on_failed(error_of(part, exit));
  }

  static Error error_of(const Part& part, ChildExit exit) {
    std::string message = fmt::format("{} did not stay up: {}", part.spec.name, exit.describe());
    for (const std::string& line : part.tail) message += "\n    " + line;
    if (!part.spec.child.log_file.empty()) message += "\n    (log: " + part.spec.child.log_file + ")";
    return {exit.code == kExitConfig ? ErrorKind::bad_config : ErrorKind::unavailable, std::move(message), {}, {}};
  }
};

Stack::Stack(asio::any_io_executor executor, Callbacks callbacks)
    : impl_(std::make_shared<Impl>(std::move(executor), std::move(callbacks))) {}

Stack::~Stack() { impl_->stopping = true; }

asio::awaitable<Result<json::object>> Stack::start(PartSpec spec) {
  const auto self = impl_;
  self->parts.push_back(std::make_unique<Part>());
  Part& part = *self->parts.back();
  part.spec = std::move(spec);
  ROOST_CO_TRY_VOID(self->launch(part));

  asio::steady_timer timer(self->executor);
  const auto deadline = Time::now() + part.spec.start_timeout;
  while (!part.exit && !self->stopping) {
    if (part.spec.probe) {
      const bool ready = co_await part.spec.probe();
      if (ready) part.ready.emplace();
    }
    if (part.ready) {
      part.started_once = true;
      co_return *part.ready;
    }
    if (Time::now() > deadline) {
      co_return Error{ErrorKind::timeout,
                      fmt::format("{} was not ready within {} s (log: {})", part.spec.name,
                                  part.spec.start_timeout.count(), part.spec.child.log_file),
                      {},
                      {}};
    }
    timer.expires_after(kPoll);
    co_await timer.async_wait(asio::use_awaitable);
  }
  if (self->stopping) co_return Error{ErrorKind::cancelled, "stopped while starting", {}, {}};
  co_return Impl::error_of(part, *part.exit);
}

void Stack::amend_environment(const std::string& part, const std::string& name_and_value) {
  for (auto& p : impl_->parts) {
    auto& environment = p->spec.child.environment;
    if (p->spec.name == part) environment.insert(environment.begin(), name_and_value);  // the first of a name counts
  }
}

asio::awaitable<void> Stack::stop() {
  const auto self = impl_;
  self->stopping = true;
  asio::steady_timer timer(self->executor);
  for (auto it = self->parts.rbegin(); it != self->parts.rend(); ++it) {
    Part& part = **it;
    if (!part.process || !part.process->running()) continue;
    // Once: a second SIGTERM tells the host to drop what runs.
    if (!std::exchange(part.told_to_stop, true)) part.process->signal(SIGTERM);
    const auto deadline = Time::now() + part.spec.stop_timeout;
    while (part.process->running()) {
      if (Time::now() > deadline) part.process->kill_group();
      timer.expires_after(kPoll);
      co_await timer.async_wait(asio::use_awaitable);
    }
  }
}

void Stack::kill() {
  impl_->stopping = true;
  for (auto& part : impl_->parts) {
    if (part->process) part->process->kill_group();
  }
}

}  // namespace roost::cli
