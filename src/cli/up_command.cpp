#include "cli/up_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "cli/demo_command.h"
#include "cli/exit_code.h"
#include "cli/stack.h"
#include "cli/state_dir.h"
#include "cli/up_parts.h"

namespace roost::cli {
namespace {

constexpr std::string_view kDefaultTurnsPerWorker = "16";
constexpr std::string_view kDefaultStateDir = "state";

void tell(const std::string& text) {
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

std::string text_of(const json::object& event, std::string_view name) {
  const json::value* value = event.if_contains(name);
  if (value == nullptr || value->is_null()) return {};
  return value->is_string() ? std::string(value->get_string()) : json::serialize(*value);
}

// A wildcard address is reached by loopback.
std::string reachable(const std::string& host) { return host == "0.0.0.0" || host == "::" ? "127.0.0.1" : host; }

class Up {
 public:
  Up(const Config& config, StateDir state)
      : config_(config),
        state_(std::move(state)),
        stack_(context_.get_executor(),
               {[this](auto& part, auto& event) { show_event(part, event); },
                [this](auto& p, auto& h, auto d) { on_restart(p, h, d); }, [this](const Error& e) { on_failed(e); }}),
        signals_(context_, SIGINT, SIGTERM),
        stop_(context_) {
    stop_.expires_at(std::chrono::steady_clock::time_point::max());
  }

  int run() {
    watch_signals();
    asio::co_spawn(context_, main(), [this](const std::exception_ptr& failure) {
      if (failure) std::rethrow_exception(failure);
      context_.stop();
    });
    context_.run();
    return code_;
  }

 private:
  asio::awaitable<void> main() {
    auto started = co_await start();
    if (!started) {
      if (!stopping_) code_ = report_failure("up", started.error());
    } else if (!stopping_) {
      bool keep_serving = true;
      if (config_.flag("up.demo")) {
        const bool ok = co_await show_demo(context_.get_executor(), demo_spec(), config_.flag("demo.json"));
        if (config_.flag("up.once")) keep_serving = false;
        if (!ok && !keep_serving) code_ = kExitFailure;
      }
      if (keep_serving && !stopping_) {
        tell(config_.flag("up.demo") ? "\nStill serving; the addresses are above. Ctrl-C stops everything."
                                     : "\nServing. Ctrl-C stops everything.");
        boost::system::error_code ec;
        co_await stop_.async_wait(asio::redirect_error(asio::use_awaitable, ec));
      }
    }
    stopping_ = true;
    if (!failed_) tell("stopping: running turns may finish");
    co_await stack_.stop();
    if (!failed_) tell("stopped");
  }

  asio::awaitable<Result<void>> start() {
    std::string redis_url = config_.text("worker.redis_url");
    if (redis_url.empty()) {
      ROOST_CO_TRY(socket, state_.redis_socket());
      redis_url = "unix://" + socket;
      auto ready = co_await stack_.start(redis_part(context_.get_executor(), state_, socket));
      if (!ready) co_return redis_error(ready.error());
      step("redis", "private, append-only file in " + state_.redis_dir());
    } else {
      step("redis", "the given one");
    }

    ROOST_CO_TRY(engine, co_await stack_.start(engine_part(config_, state_)));
    const std::string engine_port = text_of(engine, "port");
    stack_.amend_environment("engine", "ROOST_ENGINE_PORT=" + engine_port);
    engine_url_ = fmt::format("http://{}:{}", reachable(config_.text("engine.host")), engine_port);
    step("engine", engine_url_);

    const UpSecrets secrets = UpSecrets::random();
    ROOST_CO_TRY(relay, co_await stack_.start(relay_part(config_, state_, redis_url, secrets)));
    const std::string relay_host = reachable(config_.text("relay.host"));
    const std::string& exec_listen = config_.text("relay.exec_addr");
    const std::string attach = fmt::format("{}:{}", relay_host, text_of(relay, "port"));
    const std::string exec =
        fmt::format("{}:{}", reachable(exec_listen.substr(0, exec_listen.rfind(':'))), text_of(relay, "exec_port"));
    stack_.amend_environment("relay", "SH_RELAY_PORT=" + text_of(relay, "port"));
    stack_.amend_environment("relay", "SH_RELAY_EXEC_ADDR=" + exec);
    step("relay", attach + " (sandboxes attach), " + exec + " (exec)");

    for (int n = 1; n <= config_.integer("up.sandboxes"); ++n) {
      PartSpec part = sandbox_part(config_, state_, n, attach, secrets);
      const std::string name = part.name;
      ROOST_CO_TRY(sandbox, co_await stack_.start(std::move(part)));
      step(name, "attached, isolation " + text_of(sandbox, "isolation"));
    }

    ROOST_CO_TRY(host, co_await stack_.start(host_part(config_, state_, redis_url, engine_url_, exec, secrets)));
    stack_.amend_environment("host", "PORT=" + text_of(host, "port"));
    stack_.amend_environment("host", "SH_ADMIN_PORT=" + text_of(host, "admin_port"));
    host_url_ = fmt::format("http://{}:{}", reachable(config_.text("host.address")), text_of(host, "port"));
    const std::string admin = fmt::format("http://{}:{}", config_.text("host.admin_host"), text_of(host, "admin_port"));
    step("host", host_url_);

    json::object addresses;
    addresses["host"] = host_url_;
    addresses["admin"] = admin;
    addresses["engine"] = engine_url_;
    addresses["relay"] = attach;
    addresses["relay_exec"] = exec;
    addresses["redis"] = config_.text("worker.redis_url").empty() ? redis_url : "given";
    addresses["pid"] = ::getpid();
    ROOST_CO_TRY_VOID(state_.write_addresses(addresses));
    tell(fmt::format("ready: turns {}/v1/turn | chat {}/v1/chat/completions | admin {} | logs {}/logs\n", host_url_,
                     engine_url_, admin, state_.path()));
    co_return Result<void>{};
  }

  static Error redis_error(Error error) {
    error.kind = ErrorKind::bad_config;
    error.message =
        "Redis could not be started (install redis-server, or give a running one by REDIS_URL): " + error.message;
    return error;
  }

  static void step(const std::string& part, const std::string& what) { tell(fmt::format("  {:9} {}", part, what)); }

  DemoSpec demo_spec() const {
    DemoSpec spec;
    spec.engine_url = engine_url_;
    spec.host_url = host_url_;
    spec.engine_api_key = config_.text("engine.api_key");
    spec.agents = static_cast<int>(config_.integer("demo.agents"));
    return spec;
  }

  void watch_signals() {
    signals_.async_wait([this](boost::system::error_code ec, int) {
      if (ec) return;
      if (stopping_) {
        tell("stopping now");
        stack_.kill();
      } else {
        begin_stop();
      }
      watch_signals();
    });
  }

  // The first signal. A start under way ends by itself (Stack::start sees it), the wait for a signal is over, a running
  // demo loses its servers; main() then waits for the same stop.
  void begin_stop() {
    stopping_ = true;
    stop_.cancel();
    asio::co_spawn(context_, stop_stack(), asio::detached);
  }
  asio::awaitable<void> stop_stack() { co_await stack_.stop(); }

  // The parts' warnings and errors, and the engine's progress while it loads.
  void show_event(const std::string& part, const json::object& event) {
    const std::string level = text_of(event, "level");
    if (level == "warn" || level == "error") return tell(fmt::format("  {:9} {}", part, json::serialize(event)));
    const std::string name = text_of(event, "event");
    if (name == "memory plan") tell(fmt::format("  {:9} {}", part, text_of(event, "text")));
    if (name != "loading model") return;
    // A small model is there at once; a large one says how far it is, at most once a second.
    const auto now = std::chrono::steady_clock::now();
    if (now - progress_told_ < std::chrono::seconds(1)) return;
    progress_told_ = now;
    tell(fmt::format("  {:9} loading the model: {} %", part, text_of(event, "percent")));
  }

  void on_restart(const std::string& part, const std::string& how, std::chrono::milliseconds delay) {
    if (!stopping_) tell(fmt::format("  {:9} {}; starting it again in {} ms", part, how, delay.count()));
  }

  void on_failed(const Error& error) {
    if (stopping_) return;
    failed_ = true;
    code_ = report_failure("up", error);
    begin_stop();
  }

  const Config& config_;
  StateDir state_;
  asio::io_context context_{1};
  Stack stack_;
  asio::signal_set signals_;
  asio::steady_timer stop_;
  std::string engine_url_;
  std::string host_url_;
  std::chrono::steady_clock::time_point progress_told_ = std::chrono::steady_clock::now();
  bool stopping_ = false;
  bool failed_ = false;
  int code_ = kExitOk;
};

// A first `roost up` leaves a commented settings file behind, with what it was given.
Result<void> write_settings_once(const Config& config, const std::string& path) {
  if (std::filesystem::exists(path)) return {};
  std::ofstream out(path);
  out << commented_toml(config);
  if (!out.flush()) return io_error("cannot write " + path, errno);
  tell("wrote " + path + " (commented settings; edit and start again)");
  return {};
}

}  // namespace

int run_up(const Config& given, const std::string& settings_file) {
  if (!given.is_set("engine.model")) {
    return report_failure(
        "up", {ErrorKind::bad_config,
               "no model: give one by --model FILE.gguf or ROOST_MODEL (scripts/fetch-model.sh fetches a small one)",
               {},
               {}});
  }
  const Config config = given.with_fallback("host.turns_per_worker", kDefaultTurnsPerWorker)
                            .with_fallback("up.state_dir", kDefaultStateDir);
  auto state = StateDir::open(config.text("up.state_dir"));
  if (!state) return report_failure("up", state.error());
  if (auto written = write_settings_once(config, settings_file); !written) return report_failure("up", written.error());
  return Up(config, *std::move(state)).run();
}

}  // namespace roost::cli
