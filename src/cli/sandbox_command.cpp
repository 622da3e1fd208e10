#include "cli/sandbox_command.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <memory>
#include <thread>

#include "cli/exit_code.h"
#include "core/ids.h"
#include "core/log.h"
#include "sandbox/sandbox.h"

namespace roost::cli {
namespace {

namespace asio = boost::asio;

constexpr auto kStopGrace = std::chrono::seconds(2);
constexpr unsigned kCommandsPerCore = 4;

// The configured id, else the host's name as far as it may be an id.
Result<std::string> sandbox_id(const Config& config) {
  std::string id = config.text("sandbox.id");
  if (id.empty()) {
    utsname machine{};
    uname(&machine);
    id = machine.nodename;
  }
  if (!is_plain_session_id(id)) {
    return {ErrorKind::bad_config,
            fmt::format("sandbox.id: bad value '{}'; accepted: 1 to 128 letters, digits or . _ ~ -", id)};
  }
  return id;
}

// What the process must have before it has threads, and what only depends on the machine.
struct Ground {
  std::shared_ptr<sandbox::Zygote> zygote;
  sandbox::Workspaces workspaces;
  sandbox::Isolation isolation;
};

Result<Ground> lay_ground(const Config& config) {
  ROOST_TRY(workspaces, sandbox::Workspaces::open(config.text("sandbox.workspace")));
  sandbox::Isolation::Options wanted;
  wanted.mode =
      config.text("sandbox.isolation") == "none" ? sandbox::Isolation::Mode::none : sandbox::Isolation::Mode::bwrap;
  wanted.net = config.flag("sandbox.net");
  const bool contained = wanted.mode == sandbox::Isolation::Mode::bwrap;
  ROOST_TRY(zygote, sandbox::Zygote::start({contained, workspaces.root()}));
  ROOST_TRY(isolation, sandbox::Isolation::find(wanted, *zygote, workspaces));
  if (!contained) log::warn("commands run WITHOUT isolation (--isolation=none)");
  return Ground{std::move(zygote), std::move(workspaces), std::move(isolation)};
}

sandbox::AttachClient::Options attach_options(const Config& config, const std::string& id, std::size_t slots,
                                              const std::string& isolation) {
  utsname machine{};
  uname(&machine);
  sandbox::AttachClient::Options options;
  options.relay = config.text("sandbox.relay");
  options.token = config.text("sandbox.token");
  options.hello.set_sandbox_id(id);
  options.hello.set_arch(machine.machine);
  options.hello.set_capacity_max(static_cast<std::uint32_t>(slots));
  options.hello.add_capabilities("bash");
  (*options.hello.mutable_labels())["host"] = machine.nodename;
  (*options.hello.mutable_labels())["isolation"] = isolation;
  return options;
}

// Until a signal, or the zygote's end (then `exit_code` says failure).
asio::awaitable<void> serve(std::unique_ptr<sandbox::Sandbox> box, std::shared_ptr<sandbox::Zygote> zygote,
                            int& exit_code) {
  const auto executor = co_await asio::this_coro::executor;
  asio::signal_set signals(executor, SIGTERM, SIGINT);
  // Without its zygote a sandbox cannot start anything: whoever started it shall start it anew.
  asio::posix::stream_descriptor watch(executor, zygote->watch_fd().release());
  watch.async_wait(asio::posix::stream_descriptor::wait_read, [&](boost::system::error_code error) {
    if (error) return;
    log::error("the zygote ended");
    exit_code = kExitFailure;
    signals.cancel();
  });
  box->start();
  boost::system::error_code ignored;
  co_await signals.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  watch.close(ignored);
  log::info("sandbox stopping");
  co_await box->stop(kStopGrace);
  box.reset();
  log::info("sandbox stopped");
}

}  // namespace

int run_sandbox(const Config& config) {
  std::signal(SIGPIPE, SIG_IGN);
  const auto id = sandbox_id(config);
  if (!id) return report_failure("sandbox", id.error());
  if (config.text("sandbox.token").empty()) {
    return report_failure(
        "sandbox",
        {ErrorKind::bad_config, "sandbox.token: not set; give the token to attach with (SANDBOX_TOKEN)", {}, {}});
  }
  if (const auto address = sandbox::check_address("sandbox.relay", config.text("sandbox.relay")); !address) {
    return report_failure("sandbox", address.error());
  }
  auto ground = lay_ground(config);
  if (!ground) return report_failure("sandbox", ground.error());
  const std::string isolation = ground->isolation.name();
  const std::string workspace = ground->workspaces.root();

  asio::io_context loop(1);
  sandbox::SandboxOptions options;
  options.exec.slots = config.is_set("sandbox.capacity")
                           ? static_cast<std::size_t>(config.integer("sandbox.capacity"))
                           : std::size_t{kCommandsPerCore} * std::max(1U, std::thread::hardware_concurrency());
  options.exec.queue = static_cast<std::size_t>(config.integer("sandbox.queue"));
  options.attach = attach_options(config, *id, options.exec.slots, isolation);
  options.on_attached = [&, said = false]() mutable {
    if (std::exchange(said, true)) return log::info("attached again", {{"relay", config.text("sandbox.relay")}});
    log::info("sandbox ready", {{"sandbox", *id},
                                {"relay", config.text("sandbox.relay")},
                                {"isolation", isolation},
                                {"net", config.flag("sandbox.net")},
                                {"cgroup", "absent"},
                                {"workspace", workspace},
                                {"capacity", options.exec.slots}});
  };
  auto box = std::make_unique<sandbox::Sandbox>(loop.get_executor(), options, ground->zygote,
                                                std::move(ground->workspaces), std::move(ground->isolation));
  int exit_code = kExitOk;
  asio::co_spawn(loop, serve(std::move(box), ground->zygote, exit_code), asio::detached);
  loop.run();
  return exit_code;
}

}  // namespace roost::cli
