// Sending answers: every one carries the boot id.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "api/context.h"
#include "api/error_body.h"
#include "net/http_server.h"

namespace roost::api {

inline constexpr std::string_view kBootIdHeader = "X-OpenCoti-Boot-Id";

// A client that is gone is no error: nobody reads the answer.
net::awaitable<void> respond(const ApiContext& context, net::Exchange& exchange, net::Response response);
net::awaitable<void> respond_json(const ApiContext& context, net::Exchange& exchange, int status, json::value body);
net::awaitable<void> respond_error(const ApiContext& context, net::Exchange& exchange, Error error);

}  // namespace roost::api
