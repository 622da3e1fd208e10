// What all four gRPC ends have in common: message sizes, channel and listener set-up, tokens in metadata.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "core/result.h"

namespace roost::sandbox {

// A plain (h2c) channel to host:port that reconnects within seconds and does not share its connection with other
// channels.
std::shared_ptr<grpc::Channel> make_channel(const std::string& address);

// host:port, with brackets around an IPv6 host.
std::string join_address(const std::string& host, int port);

// Is it host:port? Error bad_config names the setting.
Result<void> check_address(std::string_view setting, const std::string& address);

// Starts `service` on host:port (port 0 = any free one). An address that cannot be bound is Error bad_config with the
// reason.
struct Listener {
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};
Result<Listener> listen_on(const std::string& address, grpc::Service& service);

// The token of `authorization: Bearer <token>`; empty when there is none.
std::string bearer_token(const grpc::ServerContextBase& context);

// Counts the calls whose callbacks may still come; their owner waits for the last one before it dies. Thread-safe.
class ActiveCalls {
 public:
  void enter() {
    const std::lock_guard lock(mutex_);
    ++count_;
  }
  void leave() {
    const std::lock_guard lock(mutex_);
    if (--count_ == 0) empty_.notify_all();
  }
  void wait_empty() {
    std::unique_lock lock(mutex_);
    empty_.wait(lock, [this] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable empty_;
  int count_ = 0;
};

}  // namespace roost::sandbox
