// PresenceKeeper: keeps the presence records of the sandboxes attached to this relay in Redis. Each change and each
// heartbeat writes the record; when Redis comes back after an absence, all are written again.
//
// Used from one executor; owned by a shared_ptr that its running writes share.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>

#include "sandbox/relay_hub.h"
#include "store/presence.h"

namespace roost::sandbox {

class PresenceKeeper : public std::enable_shared_from_this<PresenceKeeper> {
 public:
  // `relay_address` is where workers call Exec.
  PresenceKeeper(boost::asio::any_io_executor executor, std::shared_ptr<store::Redis> redis, std::string relay_address);

  // Watches the connection until stop(); `attached` lists what must be there.
  void start(std::function<std::vector<AttachedSandbox>()> attached);
  void present(const AttachedSandbox& sandbox);
  void gone(const AttachedSandbox& sandbox);
  // No more writes are started; waits for removals that run, at most `timeout`.
  boost::asio::awaitable<void> stop(std::chrono::milliseconds timeout);

 private:
  store::SandboxRecord record_of(const AttachedSandbox& sandbox) const;
  void watch();

  boost::asio::any_io_executor executor_;
  std::shared_ptr<store::Redis> redis_;
  store::Presence presence_;
  std::string relay_address_;
  boost::asio::steady_timer watch_timer_;
  boost::asio::steady_timer idle_timer_;
  std::function<std::vector<AttachedSandbox>()> attached_;
  std::uint64_t connection_ = 0;  // the one on which all records were written
  bool stopped_ = false;
  int removals_ = 0;
};

}  // namespace roost::sandbox
