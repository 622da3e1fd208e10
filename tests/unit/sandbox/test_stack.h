// A relay, sandboxes and a client on one loop in one process: real gRPC over loopback, real commands.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "sandbox/exec_client.h"
#include "sandbox/relay.h"
#include "sandbox/sandbox.h"

namespace roost::sandbox::test {

// Forked before gRPC makes threads; shared by all tests of the process.
std::shared_ptr<Zygote> contained_zygote();
std::shared_ptr<Zygote> plain_zygote();
const std::string& workspace_root();
// Isolation with bubblewrap, found once. Tests that need it skip where it does not work.
const Result<Isolation>& isolation();
Workspaces workspaces();
std::string unique_key();

// Waits until `condition` holds, at most 20 s.
bool eventually(const std::function<bool()>& condition);
std::string read_text(const std::string& path);

class Loop {
 public:
  Loop() : work_(boost::asio::make_work_guard(io_)), thread_([this] { io_.run(); }) {}
  ~Loop() {
    work_.reset();
    io_.stop();
    thread_.join();
  }
  boost::asio::any_io_executor executor() { return io_.get_executor(); }
  boost::asio::io_context& io() { return io_; }

  // Starts a coroutine on the loop; T need not be default-constructible.
  template <class T>
  std::future<T> launch(boost::asio::awaitable<T> work) {
    auto promise = std::make_shared<std::promise<T>>();
    auto result = promise->get_future();
    boost::asio::co_spawn(io_, fulfil(std::move(work), std::move(promise)), boost::asio::detached);
    return result;
  }
  // Runs a coroutine on the loop to its end.
  template <class T>
  T run(boost::asio::awaitable<T> work) {
    return launch(std::move(work)).get();
  }
  template <class F>
  auto call(F f) {
    return launch(invoke(std::move(f))).get();
  }

 private:
  template <class F>
  static auto invoke(F f) -> boost::asio::awaitable<decltype(f())> {
    co_return f();
  }
  template <class T>
  static boost::asio::awaitable<void> fulfil(boost::asio::awaitable<T> work, std::shared_ptr<std::promise<T>> promise) {
    if constexpr (std::is_void_v<T>) {
      co_await std::move(work);
      promise->set_value();
    } else {
      promise->set_value(co_await std::move(work));
    }
  }
  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::thread thread_;
};

class Stack : public ::testing::Test {
 protected:
  static constexpr const char* kToken = "attach-secret";
  static constexpr const char* kExecToken = "exec-secret";

  void SetUp() override;
  void TearDown() override;

  RelayAuth auth() const;
  void start_relay(RelayOptions options);
  void stop_relay();
  std::string attach_address() const { return join_address("127.0.0.1", relay->attach_port()); }
  std::string exec_address() const { return join_address("127.0.0.1", relay->exec_port()); }

  SandboxOptions sandbox_options(const std::string& id, const std::string& token = kToken) const;
  // Starts it and waits until it is attached.
  void start_sandbox(const std::string& id, SandboxOptions options);
  void start_sandbox(const std::string& id) { start_sandbox(id, sandbox_options(id)); }
  void stop_sandbox(const std::string& id);

  ExecSpec spec(const std::string& command, const std::string& sandbox_id = "box") const;
  Result<ExecOutcome> exec(ExecSpec spec);
  Result<ExecOutcome> exec(const std::string& command) { return exec(spec(command)); }
  std::future<Result<ExecOutcome>> exec_later(ExecSpec spec, AbortSource* abort = nullptr);
  // The file of the workspace that spec() uses.
  std::string file(const std::string& name) const { return workspace_root() + "/" + key + "/" + name; }

  std::string key = unique_key();
  SystemClock clock;
  Loop loop;
  std::unique_ptr<Relay> relay;
  std::map<std::string, std::unique_ptr<Sandbox>> sandboxes;
  std::unique_ptr<ExecClient> client;
};

}  // namespace roost::sandbox::test
