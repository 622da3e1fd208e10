// One generation request from its body to the end of its answer. Runs on the connection's strand; the engine is reached
// by commands and answers through the request's event ring.
#pragma once

#include "api/context.h"
#include "api/generation_request.h"
#include "net/http_server.h"

namespace roost::api {

net::awaitable<void> serve_generation(ApiContext& context, net::Exchange& exchange, Route route);

}  // namespace roost::api
