// The engine's HTTP server: all routes, the access check, the shape of errors.
#pragma once

#include "api/context.h"
#include "net/http_server.h"

namespace roost::api {

// Every route of the engine. `context` must outlive the router.
net::Router make_router(ApiContext& context);

// How connections of the engine are served: access check and early refusal before a body is read, one error renderer.
// `context` and `drain` must outlive the connections.
net::ConnectionOptions connection_options(const ApiContext& context, std::size_t max_body, net::Drain* drain);

}  // namespace roost::api
