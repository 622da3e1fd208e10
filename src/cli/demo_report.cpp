#include "cli/demo_report.h"

namespace roost::cli {

std::string_view to_string(AgentPhase phase) {
  switch (phase) {
    case AgentPhase::waiting:
      return "waiting";
    case AgentPhase::prefill:
      return "prefill";
    case AgentPhase::decode:
      return "decode";
    case AgentPhase::tool:
      return "tool";
    case AgentPhase::done:
      return "done";
    case AgentPhase::failed:
      return "failed";
  }
  return "waiting";
}

std::int64_t DemoReport::prefilled() const {
  std::int64_t sum = pool_prefilled;
  for (const AgentReport& a : agents) sum += a.prefilled;
  return sum;
}

std::int64_t DemoReport::without_sharing() const {
  std::int64_t sum = 0;
  for (const AgentReport& a : agents) sum += a.prompt;
  return sum;
}

bool DemoReport::ok() const {
  bool tool_ran = false;
  for (const AgentReport& a : agents) {
    if (a.phase != AgentPhase::done) return false;
    tool_ran = tool_ran || (!a.tool.empty() && !a.tool_failed);
  }
  return tool_ran;
}

json::object DemoReport::to_json() const {
  json::array list;
  for (const AgentReport& a : agents) {
    json::object o;
    o["role"] = a.role;
    o["session_id"] = a.session_id;
    o["phase"] = to_string(a.phase);
    o["prompt"] = a.prompt;
    o["shared"] = a.shared;
    o["prefilled"] = a.prefilled;
    o["decoded"] = a.decoded;
    o["tps"] = a.tps;
    o["wall_s"] = a.wall_s;
    o["tool"] = a.tool;
    o["tool_output"] = a.tool_output;
    o["tool_failed"] = a.tool_failed;
    o["text"] = a.text;
    o["error"] = a.error;
    list.push_back(std::move(o));
  }
  json::object out;
  out["model"] = model;
  out["pool_id"] = pool_id;
  out["pool_len"] = pool_len;
  out["pool_prefilled"] = pool_prefilled;
  out["prefilled"] = prefilled();
  out["without_sharing"] = without_sharing();
  out["wall_s"] = wall_s;
  out["ok"] = ok();
  out["agents"] = std::move(list);
  return out;
}

}  // namespace roost::cli
