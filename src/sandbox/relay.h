// Relay: the meeting point. Sandboxes attach on one listener, workers call Exec on the other; presence goes to Redis.
//
// Used from the executor it was started with, which must be driven by one thread; stop() must have finished before it
// dies.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>

#include "core/clock.h"
#include "core/result.h"
#include "sandbox/relay_auth.h"
#include "store/redis.h"

namespace roost::sandbox {

struct RelayOptions {
  std::string attach_address = "127.0.0.1:8443";  // port 0 = any free one
  std::string exec_address = "127.0.0.1:9444";
  RelayAuth auth;
  std::shared_ptr<store::Redis> redis;  // null = no presence
};

class Relay {
 public:
  // Error bad_config: an address that cannot be bound.
  static Result<std::unique_ptr<Relay>> start(boost::asio::any_io_executor executor, RelayOptions options,
                                              const Clock& clock);
  ~Relay();
  Relay(const Relay&) = delete;

  int attach_port() const;
  int exec_port() const;
  // Ends every stream and call, removes the presence records, closes the listeners. Once.
  boost::asio::awaitable<void> stop();

 private:
  struct Impl;
  explicit Relay(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace roost::sandbox
