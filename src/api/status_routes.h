// What is read from the engine's view: /health, /props, /slots, /metrics, /kv, /v1/models, /config, /polykv/tps. None
// of it waits for a step.
#pragma once

#include "api/context.h"
#include "net/http_server.h"

namespace roost::api {

void add_status_routes(net::Router& router, ApiContext& context);
void add_tps_route(net::Router& router, ApiContext& context);

// The bodies, for tests.
json::object props_json(const ApiContext& context);
json::object models_json(const ApiContext& context);
json::object config_json(const ApiContext& context);
std::string metrics_text(const engine::EngineView& view);

}  // namespace roost::api
