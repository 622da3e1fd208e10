// The host's metrics as documents. What was not measured is null in JSON and absent in Prometheus's text, never 0.
#pragma once

#include <string>

#include "core/json.h"
#include "host/host_view.h"
#include "host/options.h"

namespace roost::host {

// {workers[], supervisor{}, counters{}, lease_saturation, file_op_p95_ms, sandbox_pool_size, cores, env{}}
json::object metrics_json(const HostView& view, const HostOptions& options);
// The same numbers in Prometheus's text format.
std::string metrics_text(const HostView& view, const HostOptions& options);
// {refusals: [{time, turns_per_worker, workers: [{id, reserved, inFlight, next: {reserved, inFlight} | null}]}]}
json::object refusals_json(const HostView& view);
// {settings: {name: value}, limits: {name: value}}
json::object config_json(const HostOptions& options);

}  // namespace roost::host
