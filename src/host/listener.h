// The public port.
#pragma once

#include <cstdint>
#include <string>

#include "core/result.h"
#include "core/unique_fd.h"

namespace roost::host {

struct Listener {
  UniqueFd fd;  // listening, non-blocking, close-on-exec
  std::uint16_t port = 0;
};

// `address` is an IP literal or a name; port 0 = any free one. Errors: bad_config naming address, port and the way out.
Result<Listener> listen_on(const std::string& address, std::uint16_t port);

}  // namespace roost::host
