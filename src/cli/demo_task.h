// The demo's task: the context that all agents share, and each agent's own part of it. Data only.
#pragma once

#include <string>
#include <string_view>

namespace roost::cli {

// The system text of every agent: the shared prefix.
std::string_view demo_system_text();

struct DemoRole {
  std::string_view name;
  std::string_view prompt;
  bool runs_tool = false;
};

// The role of agent `index`; roles repeat for more agents than there are roles, so that agent 0 alone runs the tool.
DemoRole demo_role(int index);

}  // namespace roost::cli
