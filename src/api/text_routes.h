// Tokens and templates without a generation: /tokenize, /detokenize, /apply-template.
#pragma once

#include "api/context.h"
#include "net/http_server.h"

namespace roost::api {

void add_text_routes(net::Router& router, ApiContext& context);

}  // namespace roost::api
