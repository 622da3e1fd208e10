// /polykv/pools and what lies below it.
#pragma once

#include "api/context.h"
#include "net/http_server.h"

namespace roost::api {

void add_pool_routes(net::Router& router, ApiContext& context);

}  // namespace roost::api
