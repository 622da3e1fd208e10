#include "agent/model_client.h"

#include <algorithm>

namespace roost::agent {

Usage& Usage::operator+=(const Usage& more) {
  input += more.input;
  output += more.output;
  cache_read += more.cache_read;
  cache_write += more.cache_write;
  return *this;
}

json::object Usage::to_json() const {
  return {
      {"input", input}, {"output", output}, {"cacheRead", cache_read}, {"cacheWrite", cache_write}, {"total", total()}};
}

std::optional<double> EngineReport::tps() const {
  if (predicted_n <= 0 || predicted_ms <= 0) return std::nullopt;
  return static_cast<double>(predicted_n) * 1000.0 / predicted_ms;
}

void EngineReport::add(const EngineReport& call) {
  calls += call.calls;
  if (call.pool_id) pool_id = call.pool_id;
  // Each call of a turn attaches to the same prefix again: the turn shares it once.
  n_pool_shared = std::max(n_pool_shared, call.n_pool_shared);
  prompt_n += call.prompt_n;
  cache_n += call.cache_n;
  predicted_n += call.predicted_n;
  predicted_ms += call.predicted_ms;
}

json::object EngineReport::to_json() const {
  json::object out{{"pool_id", nullptr},   {"n_pool_shared", n_pool_shared},
                   {"prompt_n", prompt_n}, {"cache_n", cache_n},
                   {"tps", nullptr},       {"calls", calls}};
  if (pool_id) out["pool_id"] = *pool_id;
  if (const auto speed = tps()) out["tps"] = *speed;
  return out;
}

json::array to_openai(const std::vector<ToolSchema>& tools) {
  json::array out;
  for (const ToolSchema& tool : tools) {
    out.push_back(json::object{
        {"type", "function"},
        {"function",
         json::object{{"name", tool.name}, {"description", tool.description}, {"parameters", tool.parameters}}}});
  }
  return out;
}

}  // namespace roost::agent
