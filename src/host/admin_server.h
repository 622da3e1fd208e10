// The admin port: metrics, refusals, health, settings. It has a thread of its own, so that whoever reads it never makes
// a connection wait; it reads what HostView publishes and changes nothing.
#pragma once

#include <cstdint>
#include <memory>

#include "core/result.h"
#include "host/host_view.h"
#include "host/options.h"

namespace roost::host {

class AdminServer {
 public:
  // Listens on options.admin_address:admin_port. Both arguments live longer. Errors: bad_config (port in use).
  static Result<std::unique_ptr<AdminServer>> start(const HostView& view, const HostOptions& options);
  ~AdminServer();
  AdminServer(const AdminServer&) = delete;

  std::uint16_t port() const;

 private:
  struct Impl;
  explicit AdminServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace roost::host
