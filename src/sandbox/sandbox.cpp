#include "sandbox/sandbox.h"

#include <utility>

namespace roost::sandbox {

Sandbox::Sandbox(boost::asio::any_io_executor executor, SandboxOptions options, std::shared_ptr<Zygote> zygote,
                 Workspaces workspaces, Isolation isolation)
    : on_attached_(std::move(options.on_attached)),
      client_(executor, std::move(options.attach)),
      runner_(executor, options.exec, std::move(zygote), std::move(workspaces), std::move(isolation), client_) {}

void Sandbox::start() {
  AttachClient::Handlers handlers;
  handlers.on_exec = [this](wire::Exec exec) { runner_.submit(std::move(exec)); };
  handlers.on_abort = [this](std::uint64_t req_id) { runner_.abort(req_id); };
  handlers.on_attached = [this] {
    runner_.attached();
    if (on_attached_) on_attached_();
  };
  handlers.on_detached = [this] { runner_.detached(); };
  client_.start(std::move(handlers));
}

boost::asio::awaitable<void> Sandbox::stop(std::chrono::milliseconds grace) {
  client_.stop_throttling();
  co_await runner_.stop(grace);
  co_await client_.stop(grace);
}

}  // namespace roost::sandbox
