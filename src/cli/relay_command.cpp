#include "cli/relay_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <fstream>
#include <memory>
#include <sstream>

#include "cli/exit_code.h"
#include "core/log.h"
#include "sandbox/grpc_common.h"
#include "sandbox/relay.h"

namespace roost::cli {
namespace {

namespace asio = boost::asio;

Result<std::string> read_tokens_file(const std::string& path) {
  if (path.empty()) return std::string();
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || text.str().empty()) {
    return {ErrorKind::bad_config, fmt::format("relay.tokens_file: '{}' cannot be read or is empty", path)};
  }
  return text.str();
}

Result<sandbox::RelayOptions> relay_options(const Config& config, asio::any_io_executor executor) {
  sandbox::RelayOptions options;
  options.attach_address =
      sandbox::join_address(config.text("relay.host"), static_cast<int>(config.integer("relay.port")));
  options.exec_address = config.text("relay.exec_addr");
  ROOST_TRY(tokens, read_tokens_file(config.text("relay.tokens_file")));
  ROOST_TRY(auth,
            sandbox::RelayAuth::make(config.text("relay.token"), config.text("relay.exec_token"), tokens, environ));
  options.auth = std::move(auth);
  if (config.is_set("worker.redis_url")) {
    ROOST_TRY(redis, store::Redis::open(executor, config.text("worker.redis_url")));
    options.redis = std::move(redis);
  } else {
    log::warn("no presence: REDIS_URL is not set, workers will not find the sandboxes of this relay");
  }
  return options;
}

asio::awaitable<void> serve(std::unique_ptr<sandbox::Relay> relay, std::shared_ptr<store::Redis> redis) {
  asio::signal_set signals(co_await asio::this_coro::executor, SIGTERM, SIGINT);
  boost::system::error_code ignored;
  co_await signals.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  log::info("relay stopping");
  co_await relay->stop();
  relay.reset();
  if (redis) redis->close();
  log::info("relay stopped");
}

}  // namespace

int run_relay(const Config& config) {
  std::signal(SIGPIPE, SIG_IGN);
  asio::io_context loop(1);
  const SystemClock clock;
  auto options = relay_options(config, loop.get_executor());
  if (!options) return report_failure("relay", options.error());
  const auto redis = options->redis;
  auto relay = sandbox::Relay::start(loop.get_executor(), *std::move(options), clock);
  if (!relay) return report_failure("relay", relay.error());
  log::info("relay ready", {{"host", config.text("relay.host")},
                            {"port", (*relay)->attach_port()},
                            {"exec_addr", config.text("relay.exec_addr")},
                            {"exec_port", (*relay)->exec_port()}});
  asio::co_spawn(loop, serve(*std::move(relay), redis), asio::detached);
  loop.run();
  return kExitOk;
}

}  // namespace roost::cli
