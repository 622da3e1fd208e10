// The memory plan: what the engine will need against what the machine has, decided before anything large is allocated.
// Pure, except for available_memory().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"

namespace roost::engine {

// Bytes that a context of a given size takes, as measured on a dry run.
struct ContextMemory {
  std::uint64_t kv = 0;
  std::uint64_t compute = 0;
};

struct MemoryPlan {
  std::uint32_t cells = 0;
  std::uint64_t weights = 0, kv = 0, compute = 0, host = 0;  // bytes
  std::uint64_t available = 0;                               // bytes, before anything was loaded
  std::uint64_t total() const { return weights + kv + compute + host; }
  // "weights 98 MiB + KV 720 MiB + compute 104 MiB + host 96 MiB = 1018 MiB of 5120 MiB available (32768 cells)"
  std::string text() const;
};

// Context sizes are multiples of this many cells (libllama pads to it).
inline constexpr std::uint32_t kCellStep = 256;
// Share of the available memory that an automatic context size may fill.
inline constexpr double kAutoMemoryShare = 0.6;
// An automatic context is at most this many times the training length.
inline constexpr std::uint32_t kAutoLengthFactor = 4;

// The most cells, a multiple of kCellStep times `granule`, for which weights + host + the linear interpolation through
// two measurements stays below `budget` bytes; at most `limit`. 0 when not even one step fits.
std::uint32_t largest_context(std::uint32_t cells_a, ContextMemory at_a, std::uint32_t cells_b, ContextMemory at_b,
                              std::uint64_t weights_and_host, std::uint64_t budget, std::uint32_t limit);

// Error bad_config that names the flags to lower, when the plan does not fit.
Result<void> check_fits(const MemoryPlan& plan);

// Bytes that this process may still take: the least of MemAvailable and what the control group leaves.
std::uint64_t available_memory();

// The pieces of it, on the texts of the files.
std::optional<std::uint64_t> meminfo_available(std::string_view meminfo);
// `limit` and `usage` as the control group's files say it ("max" = no limit); `stat` for the reclaimable file cache.
std::optional<std::uint64_t> cgroup_available(std::string_view limit, std::string_view usage, std::string_view stat);

// CPUs that this process may use: affinity mask and control group quota; at least 1.
int usable_cpus();
// "200000 100000" → 2; empty for "max".
std::optional<int> cgroup_cpus(std::string_view cpu_max);

}  // namespace roost::engine
