#include "cli/demo_view.h"

#include <gtest/gtest.h>

#include "cli/demo_task.h"

namespace roost::cli {
namespace {

DemoReport sample() {
  DemoReport report;
  report.pool_id = 0;
  report.pool_len = 700;
  report.pool_prefilled = 700;
  for (int i = 0; i < 2; ++i) {
    AgentReport a;
    a.role = demo_role(i).name;
    a.phase = AgentPhase::done;
    a.shared = 700;
    a.prefilled = 30;
    a.prompt = 730;
    a.decoded = 64;
    a.tps = 12.5;
    report.agents.push_back(a);
  }
  report.agents[0].tool = "bash: ls -la";
  report.agents[0].tool_output = "total 4\nsecond line";
  return report;
}

TEST(DemoReport, SumsWhatWasPrefilledAndWhatItWouldHaveBeen) {
  const DemoReport report = sample();
  EXPECT_EQ(report.prefilled(), 760);
  EXPECT_EQ(report.without_sharing(), 1460);
}

TEST(DemoReport, IsWellOnlyWhenEachAgentEndedAndTheToolRan) {
  DemoReport report = sample();
  EXPECT_TRUE(report.ok());
  report.agents[0].tool_failed = true;
  EXPECT_FALSE(report.ok());
  report.agents[0].tool_failed = false;
  report.agents[1].phase = AgentPhase::failed;
  EXPECT_FALSE(report.ok());
}

TEST(DemoTable, ShowsEachAgentTheToolAndTheSums) {
  const std::string table = render_demo_table(sample());
  for (const char* words : {"operator", "planner", "bash: ls -la -> total 4 second line", "pool 0: 700 tokens",
                            "prefilled 760 tokens", "would have been 1460 (1.9 x)"}) {
    EXPECT_NE(table.find(words), std::string::npos) << words << " in\n" << table;
  }
}

TEST(DemoTask, AgentZeroAloneRunsTheToolHoweverManyThereAre) {
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(demo_role(i).runs_tool, i == 0);
    EXPECT_FALSE(demo_role(i).prompt.empty());
  }
}

}  // namespace
}  // namespace roost::cli
