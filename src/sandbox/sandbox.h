// Sandbox: what `roost sandbox` runs. Attaches to a relay and executes the commands it is given, isolated, one
// workspace folder per key.
//
// The zygote is given, because it must be forked before the process has threads. Used from one executor; stop() must
// have finished before it dies.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <memory>

#include "core/result.h"
#include "sandbox/attach_client.h"
#include "sandbox/exec_runner.h"

namespace roost::sandbox {

struct SandboxOptions {
  AttachClient::Options attach;
  ExecRunner::Options exec;
  std::function<void()> on_attached;
};

class Sandbox {
 public:
  Sandbox(boost::asio::any_io_executor executor, SandboxOptions options, std::shared_ptr<Zygote> zygote,
          Workspaces workspaces, Isolation isolation);

  void start();
  // Commands that still run after `grace` are killed; their ends are sent; the stream is closed.
  boost::asio::awaitable<void> stop(std::chrono::milliseconds grace);

 private:
  std::function<void()> on_attached_;
  AttachClient client_;
  ExecRunner runner_;
};

}  // namespace roost::sandbox
