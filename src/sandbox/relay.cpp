#include "sandbox/relay.h"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <thread>
#include <utility>

#include "core/check.h"
#include "core/log.h"
#include "sandbox/presence_keeper.h"
#include "sandbox/relay_attach.h"
#include "sandbox/relay_exec.h"

namespace roost::sandbox {
namespace asio = boost::asio;
namespace {
constexpr auto kSilenceCheck = std::chrono::seconds(5);
constexpr auto kShutdownGrace = std::chrono::seconds(1);
constexpr auto kRemovalGrace = std::chrono::seconds(2);
}  // namespace

struct Relay::Impl {
  Impl(asio::any_io_executor loop, RelayOptions given, const Clock& clock)
      : executor(loop),
        options(std::move(given)),
        context{loop,
                options.auth,
                RelayHub(clock, {[this](const AttachedSandbox& s) {
                                   if (keeper) keeper->present(s);
                                 },
                                 [this](const AttachedSandbox& s) {
                                   if (keeper) keeper->gone(s);
                                 }}),
                {}},
        attach_service(context),
        exec_service(context),
        silence_timer(loop) {}

  void watch_silence() {
    silence_timer.expires_after(kSilenceCheck);
    silence_timer.async_wait([this](boost::system::error_code error) {
      if (error) return;
      context.hub.close_silent();
      watch_silence();
    });
  }

  asio::any_io_executor executor;
  RelayOptions options;
  std::shared_ptr<PresenceKeeper> keeper;
  RelayContext context;
  AttachService attach_service;
  ExecService exec_service;
  Listener attach;
  Listener exec;
  asio::steady_timer silence_timer;
  bool stopped = false;
};

Relay::Relay(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Relay::~Relay() { ROOST_CHECK(impl_->stopped, "a relay is stopped before it dies"); }

int Relay::attach_port() const { return impl_->attach.port; }
int Relay::exec_port() const { return impl_->exec.port; }

Result<std::unique_ptr<Relay>> Relay::start(asio::any_io_executor executor, RelayOptions options, const Clock& clock) {
  auto impl = std::make_unique<Impl>(executor, std::move(options), clock);
  const RelayAuth& auth = impl->options.auth;
  if (!auth.has_attach_token()) {
    log::warn(
        "no attach token is set (SH_RELAY_TOKEN, SH_RELAY_TOKEN_<id> or SH_RELAY_TOKENS_FILE): every sandbox is "
        "refused");
  }
  if (auth.exec_token.empty()) log::warn("no exec token is set (SH_RELAY_EXEC_TOKEN): every Exec is refused");
  ROOST_TRY(exec, listen_on(impl->options.exec_address, impl->exec_service));
  impl->exec = std::move(exec);
  auto attach = listen_on(impl->options.attach_address, impl->attach_service);
  if (!attach) {
    impl->exec.server->Shutdown();
    return std::move(attach).error();
  }
  impl->attach = *std::move(attach);
  if (impl->options.redis) {
    const std::string& address = impl->options.exec_address;
    const std::string host = address.substr(0, address.rfind(':'));
    impl->keeper = std::make_shared<PresenceKeeper>(executor, impl->options.redis, join_address(host, impl->exec.port));
    impl->keeper->start([state = impl.get()] { return state->context.hub.attached(); });
  }
  impl->watch_silence();
  return std::unique_ptr<Relay>(new Relay(std::move(impl)));
}

asio::awaitable<void> Relay::stop() {
  Impl& impl = *impl_;
  if (impl.stopped) co_return;
  impl.silence_timer.cancel();
  impl.context.hub.close_all("the relay is stopping");
  // Shutdown blocks until the last call is done, and the calls need this loop to get done.
  asio::steady_timer done(impl.executor, asio::steady_timer::time_point::max());
  std::thread closer([&impl, &done] {
    const auto deadline = std::chrono::system_clock::now() + kShutdownGrace;
    impl.exec.server->Shutdown(deadline);
    impl.attach.server->Shutdown(deadline);
    impl.context.active.wait_empty();
    asio::post(impl.executor, [&done] { done.cancel(); });
  });
  boost::system::error_code ignored;
  co_await done.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  closer.join();
  if (impl.keeper) co_await impl.keeper->stop(kRemovalGrace);
  impl.stopped = true;
}

}  // namespace roost::sandbox
