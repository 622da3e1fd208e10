#include "cli/engine_command.h"

#include <pthread.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/context.h"
#include "api/server.h"
#include "cli/exit_code.h"
#include "core/clock.h"
#include "core/ids.h"
#include "core/log.h"
#include "engine/engine.h"
#include "engine/llama/llama_model.h"
#include "net/http_server.h"

namespace roost::cli {
namespace {

namespace asio = boost::asio;

// libllama's tokenizers and libcommon's regular expressions recurse by input length; the memory is only used when
// touched.
constexpr std::size_t kThreadStackBytes = 64UL << 20U;

template <class T>
T integer(const Config& config, std::string_view name) {
  return static_cast<T>(config.integer(name));
}

engine::LlamaOptions llama_options(const Config& config) {
  engine::LlamaOptions o;
  o.path = config.text("engine.model");
  o.alias = config.text("engine.alias");
  o.chat_template_file = config.text("engine.chat_template_file");
  o.ctx = integer<std::uint32_t>(config, "engine.ctx");
  o.parallel = integer<std::int32_t>(config, "engine.parallel");
  o.max_pools = integer<std::int32_t>(config, "engine.max_pools");
  o.batch = integer<std::uint32_t>(config, "engine.batch");
  o.ubatch = integer<std::uint32_t>(config, "engine.ubatch");
  o.threads = integer<std::int32_t>(config, "engine.threads");
  o.gpu_layers = integer<std::int32_t>(config, "engine.gpu_layers");
  o.cache_type_k = config.text("engine.cache_type_k");
  o.cache_type_v = config.text("engine.cache_type_v");
  o.unified = config.flag("engine.kv_unified");
  o.on_plan = [](const engine::MemoryPlan& plan) {
    log::info("memory plan", {{"text", plan.text()},
                              {"weights_bytes", plan.weights},
                              {"kv_bytes", plan.kv},
                              {"compute_bytes", plan.compute},
                              {"host_bytes", plan.host},
                              {"total_bytes", plan.total()},
                              {"available_bytes", plan.available},
                              {"cells", plan.cells}});
  };
  o.on_progress = [last = -1](float progress) mutable {
    const int percent = static_cast<int>(progress * 10) * 10;
    if (percent == last) return;
    last = percent;
    log::info("loading model", {{"percent", percent}});
  };
  return o;
}

engine::EngineOptions engine_options(const Config& config, const engine::LlamaModel& model) {
  engine::EngineOptions o;
  o.parallel = integer<kv::SeqId>(config, "engine.parallel");
  o.max_pools = integer<std::int32_t>(config, "engine.max_pools");
  o.max_decoding = integer<std::int32_t>(config, "engine.max_decoding");
  o.batch = static_cast<std::int32_t>(model.batch());
  o.auto_share = config.flag("engine.auto_share");
  o.min_prefill = integer<std::int32_t>(config, "engine.min_prefill");
  o.max_gap_ms = integer<double>(config, "engine.max_gap_ms");
  o.default_reserve = integer<std::int32_t>(config, "engine.default_reserve");
  o.pool_ttl_s = config.number("engine.pool_ttl_s");
  o.pin_limit = config.number("engine.pin_limit");
  o.session_ttl_s = config.number("engine.session_ttl_s");
  o.tps_tau_ms = integer<double>(config, "engine.tps_tau_ms");
  o.max_queued = integer<std::size_t>(config, "engine.max_queued");
  o.slow_client_s = config.number("engine.slow_client_s");
  return o;
}

api::KvDescription describe(const engine::LlamaModel& model) {
  const engine::KvLayout& layout = model.layout();
  const engine::ModelInfo& info = model.text().info();
  return {layout.type_k,          layout.type_v,    layout.unified,  layout.swa_full,
          layout.flash_attention, layout.attention, info.swa_window, info.recurrent};
}

// The engine thread. Stops and joins in its destructor.
class EngineThread {
 public:
  explicit EngineThread(engine::Engine& engine) : engine_(engine), thread_([&engine] { engine.run(); }) {}
  EngineThread(const EngineThread&) = delete;
  ~EngineThread() {
    engine_.stop();
    thread_.join();
  }

 private:
  engine::Engine& engine_;
  std::thread thread_;
};

// The server while it runs: two I/O threads, the signals, the orderly stop.
class EngineServer {
 public:
  EngineServer(const Config& config, engine::LlamaModel& model, engine::Engine& engine)
      : config_(config),
        engine_(engine),
        api_{engine,
             model.text(),
             config,
             clock_,
             describe(model),
             random_hex(8),
             clock_.unix_seconds(),
             config.text("engine.api_key"),
             [this] { request_stop("POST /shutdown"); }},
        router_(api::make_router(api_)),
        server_(io_, router_, server_options()),
        signals_(io_, SIGTERM, SIGINT) {}

  Result<void> start() { return server_.start(); }
  std::uint16_t port() const { return server_.port(); }
  const std::string& boot_id() const { return api_.boot_id; }

  // Returns when the server has stopped.
  void run() {
    watch_signals();
    std::thread second([this] { io_.run(); });
    io_.run();
    second.join();
  }

 private:
  net::HttpServer::Options server_options() {
    net::HttpServer::Options options;
    options.host = config_.text("engine.host");
    options.port = static_cast<std::uint16_t>(config_.integer("engine.port"));
    options.connection =
        api::connection_options(api_, static_cast<std::size_t>(config_.integer("engine.max_body")), &drain_);
    return options;
  }

  void watch_signals() {
    signals_.async_wait([this](const boost::system::error_code& ec, int signal) {
      if (ec) return;
      request_stop(signal == SIGTERM ? "SIGTERM" : "SIGINT");
      watch_signals();
    });
  }

  // Any thread. The first starts the orderly stop; a second cuts it short.
  void request_stop(std::string why) {
    asio::post(stop_strand_, [this, why = std::move(why)] {
      if (std::exchange(stopping_, true)) {
        log::warn("stopping at once", {{"why", why}});
        engine_.stop();
        return;
      }
      log::info("stopping", {{"why", why}, {"grace_s", config_.number("engine.grace_s")}});
      asio::co_spawn(stop_strand_, stop(), asio::detached);
    });
  }

  asio::awaitable<void> stop() {
    drain_.begin();
    const auto grace = std::chrono::milliseconds(static_cast<std::int64_t>(config_.number("engine.grace_s") * 1e3));
    co_await server_.stop(grace);
    signals_.cancel();
    io_.stop();
  }

  const Config& config_;
  engine::Engine& engine_;
  SystemClock clock_;
  asio::io_context io_{2};
  asio::strand<asio::io_context::executor_type> stop_strand_{io_.get_executor()};
  net::Drain drain_;
  api::ApiContext api_;
  net::Router router_;
  net::HttpServer server_;
  asio::signal_set signals_;
  bool stopping_ = false;  // on stop_strand_
};

// ggml's compute threads meet at some 300 barriers per token, and libgomp's threads spin there for milliseconds before
// they sleep. Beside busy workers on the same cores that makes decoding more than ten times slower. libgomp's own
// figure for more threads than processors serves both cases, but it reads its environment before main(): so the process
// starts itself over once, same pid, same arguments. Without /proc things stay as they are.
void shorten_openmp_spin() {
  constexpr const char* kSpinCount = "1000";
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(in, argument, '\0');) arguments.push_back(argument);
  if (arguments.empty()) return;
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::setenv("GOMP_SPINCOUNT", kSpinCount, 1);
  ::execv("/proc/self/exe", argv.data());
}

void set_thread_stacks() {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return;
  if (pthread_attr_setstacksize(&attributes, kThreadStackBytes) == 0) pthread_setattr_default_np(&attributes);
  pthread_attr_destroy(&attributes);
}

}  // namespace

int run_engine(const Config& config) {
  shorten_openmp_spin();
  set_thread_stacks();
  auto model = engine::LlamaModel::load(llama_options(config));
  if (!model) return report_failure("engine", model.error());
  const SystemClock clock;
  engine::Engine engine((*model)->kv(), (*model)->port(), clock, engine_options(config, **model));
  EngineServer server(config, **model, engine);
  if (const auto started = server.start(); !started) return report_failure("engine", started.error());
  {
    const EngineThread thread(engine);
    const engine::ModelInfo& info = (*model)->text().info();
    log::info("engine ready", {{"host", config.text("engine.host")},
                               {"port", server.port()},
                               {"model", info.name},
                               {"description", info.description},
                               {"parallel", config.integer("engine.parallel")},
                               {"max_pools", config.integer("engine.max_pools")},
                               {"session_limit", engine.session_limit()},
                               {"threads", (*model)->threads()},
                               {"pid", static_cast<std::int64_t>(::getpid())},
                               {"boot_id", server.boot_id()}});
    server.run();
  }
  log::info("stopped");
  return kExitOk;
}

}  // namespace roost::cli
