#include "engine/llama/memory_plan.h"

#include <gtest/gtest.h>

namespace roost::engine {
namespace {

constexpr std::uint64_t kMiB = 1ULL << 20U;

TEST(MemoryPlan, TheLargestContextFillsTheBudgetInSteps) {
  // 1 MiB per 256 cells, 10 MiB of compute.
  const ContextMemory at_1024{4 * kMiB, 10 * kMiB}, at_4096{16 * kMiB, 10 * kMiB};
  EXPECT_EQ(largest_context(1024, at_1024, 4096, at_4096, 90 * kMiB, 200 * kMiB, 1U << 20U), 100U * 256U);
  EXPECT_EQ(largest_context(1024, at_1024, 4096, at_4096, 90 * kMiB, 200 * kMiB, 8192), 8192U);
  EXPECT_EQ(largest_context(1024, at_1024, 4096, at_4096, 90 * kMiB, 100 * kMiB, 8192), 0U);
  EXPECT_EQ(largest_context(1024, at_1024, 4096, at_4096, 300 * kMiB, 200 * kMiB, 8192), 0U);
}

TEST(MemoryPlan, APlanThatDoesNotFitNamesTheFlagToLower) {
  MemoryPlan plan;
  plan.weights = 100 * kMiB;
  plan.kv = 900 * kMiB;
  plan.available = 1001 * kMiB;
  EXPECT_TRUE(check_fits(plan).ok());
  plan.available = 999 * kMiB;
  const auto refused = check_fits(plan);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::bad_config);
  EXPECT_NE(refused.error().message.find("--ctx-size"), std::string::npos);
  EXPECT_NE(refused.error().message.find("--parallel"), std::string::npos);
}

TEST(MemoryPlan, AvailableMemoryIsReadFromTheKernelsFiles) {
  EXPECT_EQ(meminfo_available("MemTotal: 8000 kB\nMemAvailable:    2048 kB\n"), 2048U * 1024U);
  EXPECT_EQ(meminfo_available("MemTotal: 8000 kB\n"), std::nullopt);
  EXPECT_EQ(cgroup_available("1000\n", "400\n", "anon 5\ninactive_file 100\n"), 700U);
  EXPECT_EQ(cgroup_available("1000\n", "2000\n", ""), 0U);
  EXPECT_EQ(cgroup_available("max\n", "400\n", ""), std::nullopt);
  EXPECT_EQ(cgroup_available("9223372036854771712\n", "400\n", ""), std::nullopt);
  EXPECT_EQ(cgroup_available("", "", ""), std::nullopt);
  EXPECT_GT(available_memory(), 0U);
}

TEST(MemoryPlan, CpusAreReadFromTheQuota) {
  EXPECT_EQ(cgroup_cpus("200000 100000\n"), 2);
  EXPECT_EQ(cgroup_cpus("150000 100000\n"), 2);
  EXPECT_EQ(cgroup_cpus("10000 100000\n"), 1);
  EXPECT_EQ(cgroup_cpus("max 100000\n"), std::nullopt);
  EXPECT_EQ(cgroup_cpus(""), std::nullopt);
  EXPECT_GE(usable_cpus(), 1);
}

}  // namespace
}  // namespace roost::engine
