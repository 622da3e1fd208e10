// ExecClient: a worker's way to a sandbox. One gRPC channel to the relay's Exec listener; calls run concurrently.
// gRPC's callbacks come on its own threads and are posted to the caller's executor, on which every method is used.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/abort.h"
#include "core/result.h"

namespace roost::sandbox {

namespace asio = boost::asio;

struct ExecSpec {
  std::string sandbox_id;
  std::string command;                 // for bash -c
  std::string stdin_bytes;             // written, then closed
  std::chrono::seconds timeout{1800};  // 0 = none; sent on the wire
  std::string workspace_key;           // one workspace folder per key
};

enum class ExecStream { out, err };

struct ExecOutcome {
  std::string out;
  std::string err;
  int exit_code = 0;       // < 0: ended by a signal or aborted
  bool truncated = false;  // a stream reached its cap; a failure to the model, never a success
};

class ExecClient {
 public:
  // `address` is host:port of the relay's Exec listener, `token` its bearer token.
  ExecClient(asio::any_io_executor executor, const std::string& address, std::string token);
  ~ExecClient();
  ExecClient(const ExecClient&) = delete;

  // Runs a command. `on_chunk` sees output as it arrives (the outcome holds it too). An abort kills the command's whole
  // group. Errors: sandbox_failed (the sandbox or relay said no, or the sandbox went away; the message says which),
  // timeout, cancelled, unavailable (relay not reachable).
  asio::awaitable<Result<ExecOutcome>> exec(ExecSpec spec, AbortSource* abort = nullptr,
                                            std::function<void(ExecStream, std::string_view)> on_chunk = {});

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace roost::sandbox
