// How each part of the stack is started: its command line, its environment, how it tells that it is ready.
#pragma once

#include <string>

#include "cli/stack.h"
#include "cli/state_dir.h"
#include "core/config.h"

namespace roost::cli {

// The secrets that the parts of one `roost up` share; made anew at each start.
struct UpSecrets {
  std::string attach_token;
  std::string exec_token;
  static UpSecrets random();
};

// A private Redis on a unix socket with an append-only file; its URL is "unix://" + socket.
PartSpec redis_part(asio::any_io_executor executor, const StateDir& state, const std::string& socket);
PartSpec engine_part(const Config& config, const StateDir& state);
PartSpec relay_part(const Config& config, const StateDir& state, const std::string& redis_url,
                    const UpSecrets& secrets);
PartSpec sandbox_part(const Config& config, const StateDir& state, int number, const std::string& relay_address,
                      const UpSecrets& secrets);
PartSpec host_part(const Config& config, const StateDir& state, const std::string& redis_url,
                   const std::string& engine_url, const std::string& relay_exec_address, const UpSecrets& secrets);

}  // namespace roost::cli
