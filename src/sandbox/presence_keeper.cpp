#include "sandbox/presence_keeper.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "core/log.h"

namespace roost::sandbox {
namespace asio = boost::asio;
namespace {
constexpr auto kWatchInterval = std::chrono::milliseconds(500);
}

PresenceKeeper::PresenceKeeper(asio::any_io_executor executor, std::shared_ptr<store::Redis> redis,
                               std::string relay_address)
    : executor_(executor),
      redis_(redis),
      presence_(std::move(redis)),
      relay_address_(std::move(relay_address)),
      watch_timer_(executor),
      idle_timer_(executor) {}

void PresenceKeeper::start(std::function<std::vector<AttachedSandbox>()> attached) {
  attached_ = std::move(attached);
  watch();
}

void PresenceKeeper::watch() {
  if (stopped_) return;
  if (redis_->connected() && redis_->connections() != connection_) {
    connection_ = redis_->connections();
    // What was written before may be gone, and what changed meanwhile was never written.
    for (const AttachedSandbox& sandbox : attached_()) present(sandbox);
  }
  watch_timer_.expires_after(kWatchInterval);
  watch_timer_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
    if (const auto self = weak.lock(); self && !error) self->watch();
  });
}

void PresenceKeeper::present(const AttachedSandbox& sandbox) {
  if (stopped_) return;
  auto write = [](std::shared_ptr<PresenceKeeper> self, store::SandboxRecord record) -> asio::awaitable<void> {
    const auto written = co_await self->presence_.put(std::move(record));
    if (!written) log::warn("presence not written", {{"error", written.error().message}});
  };
  asio::co_spawn(executor_, write(shared_from_this(), record_of(sandbox)), asio::detached);
}

void PresenceKeeper::gone(const AttachedSandbox& sandbox) {
  if (stopped_) return;
  ++removals_;
  auto remove = [](std::shared_ptr<PresenceKeeper> self, std::string id, std::int64_t epoch) -> asio::awaitable<void> {
    // A record that could not be removed expires.
    const auto removed = co_await self->presence_.remove(std::move(id), epoch);
    static_cast<void>(removed.ok());
    if (--self->removals_ == 0) self->idle_timer_.cancel();
  };
  asio::co_spawn(executor_, remove(shared_from_this(), sandbox.hello.sandbox_id(), sandbox.epoch), asio::detached);
}

asio::awaitable<void> PresenceKeeper::stop(std::chrono::milliseconds timeout) {
  const auto self = shared_from_this();
  stopped_ = true;
  watch_timer_.cancel();
  if (removals_ == 0) co_return;
  idle_timer_.expires_after(timeout);
  boost::system::error_code ignored;
  co_await idle_timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

store::SandboxRecord PresenceKeeper::record_of(const AttachedSandbox& sandbox) const {
  const wire::Hello& hello = sandbox.hello;
  store::SandboxRecord record;
  record.sandbox_id = hello.sandbox_id();
  record.labels = {hello.labels().begin(), hello.labels().end()};
  record.capabilities = {hello.capabilities().begin(), hello.capabilities().end()};
  record.capacity_max = hello.capacity_max();
  record.relay = relay_address_;
  record.epoch = sandbox.epoch;
  return record;
}

}  // namespace roost::sandbox
