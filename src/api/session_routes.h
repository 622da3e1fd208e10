// Closing sessions, and what else is said to the engine as a whole: integrity check, shutdown.
#pragma once

#include "api/context.h"
#include "net/http_server.h"

namespace roost::api {

void add_session_routes(net::Router& router, ApiContext& context);

}  // namespace roost::api
