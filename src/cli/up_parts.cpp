#include "cli/up_parts.h"

#include <fmt/format.h>

#include <filesystem>

#include "core/ids.h"
#include "store/redis.h"

namespace roost::cli {

using namespace std::chrono_literals;

namespace {

// This very executable, also after an upgrade replaced the file: /proc/self/exe would then be the old one.
std::string roost_executable() {
  std::error_code ec;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", ec);
  return ec ? "roost" : path.string();
}

PartSpec roost_part(const Config& config, const StateDir& state, std::string name, const std::string& command,
                    Command settings_of) {
  PartSpec part;
  part.name = std::move(name);
  part.ready_event = command + " ready";
  part.child.argv = {roost_executable(), command, "--log-format", "json"};
  part.child.environment = config.as_environment(settings_of);
  part.child.log_file = state.log_file(part.name);
  return part;
}

asio::awaitable<bool> answers_ping(asio::any_io_executor executor, std::string socket) {
  if (!std::filesystem::exists(socket)) co_return false;  // not yet: no need to try, and to log that it failed
  auto redis = store::Redis::open(executor, "unix://" + socket);
  if (!redis) co_return false;
  auto connected = co_await (*redis)->wait_connected(500ms);
  bool ready = false;
  if (connected) {
    std::vector<std::string> ping{"PING"};
    auto pong = co_await (*redis)->command(std::move(ping), 500ms);
    ready = pong.ok();
  }
  (*redis)->close();
  co_return ready;
}

}  // namespace

UpSecrets UpSecrets::random() { return {random_hex(24), random_hex(24)}; }

PartSpec redis_part(asio::any_io_executor executor, const StateDir& state, const std::string& socket) {
  PartSpec part;
  part.name = "redis";
  part.start_timeout = 30s;
  part.child.log_file = state.log_file("redis");
  part.child.argv = {"redis-server",
                     "--port",
                     "0",
                     "--unixsocket",
                     socket,
                     "--unixsocketperm",
                     "700",
                     "--dir",
                     state.redis_dir(),
                     "--save",
                     "",
                     "--appendonly",
                     "yes",
                     "--appendfsync",
                     "everysec",
                     "--daemonize",
                     "no",
                     "--loglevel",
                     "warning"};
  part.probe = [executor, socket] { return answers_ping(executor, socket); };
  return part;
}

PartSpec engine_part(const Config& config, const StateDir& state) {
  PartSpec part = roost_part(config, state, "engine", "engine", kEngine);
  part.start_timeout = 600s;  // a large model from a slow disk
  part.stop_timeout = std::chrono::seconds(static_cast<int>(config.number("engine.grace_s")) + 5);
  return part;
}

PartSpec relay_part(const Config& config, const StateDir& state, const std::string& redis_url,
                    const UpSecrets& secrets) {
  PartSpec part = roost_part(config, state, "relay", "relay", kRelay);
  part.child.environment.push_back("REDIS_URL=" + redis_url);
  part.child.environment.push_back("SH_RELAY_TOKEN=" + secrets.attach_token);
  part.child.environment.push_back("SH_RELAY_EXEC_TOKEN=" + secrets.exec_token);
  return part;
}

PartSpec sandbox_part(const Config& config, const StateDir& state, int number, const std::string& relay_address,
                      const UpSecrets& secrets) {
  const std::string id = fmt::format("sandbox-{}", number);
  PartSpec part = roost_part(config, state, id, "sandbox", kSandbox);
  part.child.environment.push_back("SANDBOX_ID=" + id);
  part.child.environment.push_back("SANDBOX_TOKEN=" + secrets.attach_token);
  part.child.environment.push_back("RELAY_ADDR=" + relay_address);
  part.child.environment.push_back("SANDBOX_WORKSPACE=" + state.workspaces_dir() + "/" + id);
  return part;
}

PartSpec host_part(const Config& config, const StateDir& state, const std::string& redis_url,
                   const std::string& engine_url, const std::string& relay_exec_address, const UpSecrets& secrets) {
  PartSpec part = roost_part(config, state, "host", "host", kHost);
  part.stop_timeout = std::chrono::seconds(static_cast<int>(config.number("host.drain_s")) + 5);
  auto& environment = part.child.environment;
  environment.push_back("REDIS_URL=" + redis_url);
  if (config.source("worker.model_url") == Source::default_value) environment.push_back("SH_MODEL_URL=" + engine_url);
  if (!config.is_set("worker.model_api_key") && config.is_set("engine.api_key")) {
    environment.push_back("SH_MODEL_API_KEY=" + config.text("engine.api_key"));
  }
  environment.push_back("SH_RELAY_ADDR=" + relay_exec_address);
  environment.push_back("SH_RELAY_EXEC_TOKEN=" + secrets.exec_token);
  return part;
}

}  // namespace roost::cli
