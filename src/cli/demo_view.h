// What the demo shows: one line per agent while it runs, a table at the end.
#pragma once

#include <string>

#include "cli/demo_report.h"

namespace roost::cli {

// Draws the live lines: in place on a terminal, else a line whenever an agent's phase changes.
class DemoView {
 public:
  explicit DemoView(bool terminal) : terminal_(terminal) {}
  void update(const DemoReport& report);
  void finish();  // leaves the live lines behind

 private:
  bool terminal_;
  std::size_t lines_drawn_ = 0;
  std::vector<AgentPhase> shown_;
};

std::string render_agent_line(const AgentReport& agent);
// The table and the sums under it.
std::string render_demo_table(const DemoReport& report);

}  // namespace roost::cli
