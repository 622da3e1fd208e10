// Pools, slots and speeds of an EngineView as JSON. Pure.
#pragma once

#include <optional>

#include "core/json.h"
#include "engine/view.h"

namespace roost::api {

// {pools:[...], pools_max, tree_depth, seq_ids_used, seq_ids_max}; with `root`, of that pool and what lies below it
// only. Empty when there is no such pool.
std::optional<json::object> pools_json(const engine::EngineView& view, std::optional<kv::PoolId> root,
                                       bool with_tokens);
json::array slots_json(const engine::EngineView& view);
json::object tps_json(const engine::EngineView& view);
json::object kv_json(const engine::EngineView& view);

}  // namespace roost::api
