// Stack: the parts of `roost up` as child processes, started in order (each waits until it says that it is ready),
// started again when they crash, stopped in the reverse order. One part of the stack that cannot be kept up brings all
// of it down.
//
// Lives on one executor.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/child_process.h"
#include "core/json.h"
#include "core/result.h"

namespace roost::cli {

namespace asio = boost::asio;

// One part.
struct PartSpec {
  std::string name;         // "engine"; also its log file's name
  std::string ready_event;  // the log event that says it is ready; empty = see `probe`
  // Asked until it gives true, for a part that does not log our way (Redis).
  std::function<asio::awaitable<bool>()> probe;
  std::chrono::seconds start_timeout{120};
  std::chrono::seconds stop_timeout{25};  // after SIGTERM; then SIGKILL
  ChildSpec child;
};

class Stack {
 public:
  struct Callbacks {
    // A log event of a part worth showing: progress while starting, warnings and errors.
    std::function<void(const std::string& part, const json::object& event)> on_event;
    // A part ended by itself and will be started again after `delay`.
    std::function<void(const std::string& part, const std::string& how, std::chrono::milliseconds delay)> on_restart;
    // A part cannot be kept up: the stack is finished.
    std::function<void(const Error& error)> on_failed;
  };

  Stack(asio::any_io_executor executor, Callbacks callbacks);
  ~Stack();
  Stack(const Stack&) = delete;

  // Starts a part and waits until it is ready: its ready event (an empty object where it was probed). An error carries
  // the last lines of a part that ended instead; bad_config when its exit code was 78.
  asio::awaitable<Result<json::object>> start(PartSpec spec);
  // Pins settings of a part for its next start, for example the port that it was given.
  void amend_environment(const std::string& part, const std::string& name_and_value);
  // SIGTERM to each part, last started first, waiting for each. May be called by several; all wait for the same stop.
  asio::awaitable<void> stop();
  // Kills everything at once; a running stop() ends soon after.
  void kill();

 private:
  struct Part;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace roost::cli
