#include "cli/worker_command.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdlib>
#include <memory>

#include "agent/credentials.h"
#include "agent/openai_client.h"
#include "agent/sandbox_pool.h"
#include "agent/turn_error.h"
#include "agent/turn_server.h"
#include "agent/worker_process.h"
#include "cli/exit_code.h"
#include "core/clock.h"
#include "core/log.h"
#include "host/usable_cpus.h"
#include "sandbox/exec_client.h"
#include "store/redis.h"

namespace roost::cli {
namespace {

namespace asio = boost::asio;

constexpr std::string_view kDefaultRedis = "redis://127.0.0.1:6379";
constexpr std::chrono::seconds kUnwind{2};  // for turns that the end of the drain cuts, to give back what they hold

std::chrono::milliseconds milliseconds_of(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1e3));
}

// The model tier's key: the setting, else the provider's own variable, which is sent over TLS only.
std::string model_key(const Config& config, const agent::EnvironmentCredentials& credentials) {
  const std::string& set = config.text("worker.model_api_key");
  if (!set.empty() && set != agent::kScrubbedMarker) return set;
  if (!config.text("worker.model_url").starts_with("https://")) return {};
  return credentials.variable("OPENAI_API_KEY").value_or("");
}

agent::OpenAiOptions model_options(const Config& config, const agent::EnvironmentCredentials& credentials,
                                   std::uint32_t turns) {
  agent::OpenAiOptions options;
  options.url = config.text("worker.model_url");
  options.api_key = model_key(config, credentials);
  // One call per turn at a time: with a connection for each place no turn waits for another's stream to end.
  options.max_connections = std::max<std::size_t>(options.max_connections, turns);
  return options;
}

agent::TurnOptions turn_options(const Config& config) {
  agent::TurnOptions options;
  options.model = config.text("worker.model");
  options.max_tokens = config.integer("worker.max_tokens");
  options.max_turns = config.integer("worker.max_turns");
  options.lease_life = milliseconds_of(config.number("worker.lease_s"));
  options.exec_timeout = std::chrono::seconds(config.integer("worker.exec_timeout_s"));
  return options;
}

agent::SandboxPool::Options pool_options(const Config& config) {
  agent::SandboxPool::Options options;
  options.cap = config.is_set("worker.sandbox_cap") ? config.integer("worker.sandbox_cap") : 0;
  options.cores = host::usable_cpus();
  return options;
}

// After the drain's end turns may still be there: they are aborted and may unwind for a moment. What does not end by
// then (a handler that waits for something that never comes) ends with the process.
void end_turns(asio::io_context& io, agent::TurnServer& turns) {
  turns.abort_all("shutting_down");
  io.restart();
  const auto deadline = std::chrono::steady_clock::now() + kUnwind;
  while (turns.in_flight() > 0 && std::chrono::steady_clock::now() < deadline) {
    io.run_one_for(std::chrono::milliseconds(50));
  }
}

}  // namespace

int run_worker(const Config& config) {
  const auto credentials = agent::scrub_environment();
  if (config.text("worker.model_protocol") == "anthropic") {
    return report_failure(
        "worker",
        {ErrorKind::bad_config, "worker.model_protocol: 'anthropic' is not there yet; use openai or auto", {}, {}});
  }
  auto options = agent::worker_options(config);
  if (!options) return report_failure("worker", options.error());
  options->render_error = [](const Error& error) { return agent::render_turn_error(error); };

  const SystemClock clock;
  asio::io_context io{1};
  const std::string& redis_url = config.text("worker.redis_url");
  auto redis = store::Redis::open(io.get_executor(), redis_url.empty() ? kDefaultRedis : std::string_view(redis_url));
  if (!redis) return report_failure("worker", redis.error());
  auto model =
      agent::OpenAiClient::make(io.get_executor(), model_options(config, *credentials, options->turns_per_worker));
  if (!model) return report_failure("worker", model.error());
  const auto exec = std::make_shared<sandbox::ExecClient>(io.get_executor(), config.text("relay.address"),
                                                          config.text("relay.exec_token"));
  agent::SandboxPool sandboxes(io.get_executor(), *redis, exec, pool_options(config));
  agent::TurnServices services{io.get_executor(), *redis, &sandboxes, model->get(), &clock, turn_options(config)};
  agent::TurnServer turns(std::move(services), {});
  net::Router router;
  turns.add_routes(router);

  auto worker = agent::WorkerProcess::create(io, router, *std::move(options), Config::process_environment());
  if (!worker) return report_failure("worker", worker.error());
  log::info("worker ready", {{"port", (*worker)->port()}, {"pid", static_cast<std::int64_t>(::getpid())}});
  const int code = (*worker)->run();
  end_turns(io, turns);
  (*redis)->close();
  if (turns.in_flight() > 0) {
    log::warn("turns were cut off", {{"turns", turns.in_flight()}});
    std::_Exit(code);
  }
  log::info("stopped");
  return code;
}

}  // namespace roost::cli
