// What the relay's streams share: the loop they run on, the hub, the tokens. Outlives every stream (ActiveCalls counts
// them).
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <string>
#include <string_view>

#include "sandbox/grpc_common.h"
#include "sandbox/relay_auth.h"
#include "sandbox/relay_hub.h"

namespace roost::sandbox {

struct RelayContext {
  boost::asio::any_io_executor executor;
  RelayAuth auth;
  RelayHub hub;
  ActiveCalls active;

  // Status messages travel in a header, which has a limit of its own.
  static std::string status_text(std::string_view message) {
    constexpr std::size_t kMax = 1024;
    return std::string(message.substr(0, kMax));
  }
};

}  // namespace roost::sandbox
