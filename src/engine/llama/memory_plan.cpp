#include "engine/llama/memory_plan.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <thread>

namespace roost::engine {
namespace {

std::string mib(std::uint64_t bytes) { return fmt::format("{} MiB", (bytes + (1U << 19U)) >> 20U); }

std::optional<std::uint64_t> parse_number(std::string_view text) {
  const auto first = text.find_first_of("0123456789");
  if (first == std::string_view::npos) return std::nullopt;
  std::uint64_t n = 0;
  const auto [end, ec] = std::from_chars(text.data() + first, text.data() + text.size(), n);
  if (ec != std::errc{}) return std::nullopt;
  return n;
}

// The number after `key` at the start of a line.
std::optional<std::uint64_t> number_of_line(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const auto eol = text.find('\n');
    const std::string_view line = text.substr(0, eol);
    if (line.substr(0, key.size()) == key) return parse_number(line.substr(key.size()));
    text = eol == std::string_view::npos ? std::string_view{} : text.substr(eol + 1);
  }
  return std::nullopt;
}

std::string read_file(const char* path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

std::string MemoryPlan::text() const {
  return fmt::format("weights {} + KV {} + compute {} + host {} = {} of {} available ({} cells)", mib(weights), mib(kv),
                     mib(compute), mib(host), mib(total()), mib(available), cells);
}

std::uint32_t largest_context(std::uint32_t cells_a, ContextMemory at_a, std::uint32_t cells_b, ContextMemory at_b,
                              std::uint64_t weights_and_host, std::uint64_t budget, std::uint32_t limit) {
  const auto sum = [](ContextMemory m) { return static_cast<double>(m.kv + m.compute); };
  const double per_cell = (sum(at_b) - sum(at_a)) / (static_cast<double>(cells_b) - cells_a);
  const double base = sum(at_a) - per_cell * cells_a + static_cast<double>(weights_and_host);
  const double room = static_cast<double>(budget) - base;
  if (room <= 0) return 0;
  const double fits = per_cell <= 0 ? static_cast<double>(limit) : std::floor(room / per_cell);
  const auto cells = static_cast<std::uint32_t>(std::min(fits, static_cast<double>(limit)));
  return cells / kCellStep * kCellStep;
}

Result<void> check_fits(const MemoryPlan& plan) {
  if (plan.total() <= plan.available) return {};
  const bool weights_alone = plan.weights + plan.host > plan.available;
  return {ErrorKind::bad_config,
          fmt::format("the engine does not fit in memory: {}. {}", plan.text(),
                      weights_alone ? "The weights alone do not fit: use a smaller or more strongly quantized model"
                                    : "Lower -c/--ctx-size (KV cells), or --parallel and --polykv-max-pools with "
                                      "--no-kv-unified, or use --cache-type-k/-v q8_0")};
}

std::optional<std::uint64_t> meminfo_available(std::string_view meminfo) {
  const auto kib = number_of_line(meminfo, "MemAvailable:");
  return kib ? std::optional(*kib * 1024) : std::nullopt;
}

std::optional<std::uint64_t> cgroup_available(std::string_view limit, std::string_view usage, std::string_view stat) {
  const auto max = parse_number(limit);
  const auto used = parse_number(usage);
  // Version 1 writes a huge number for "no limit".
  if (!max || !used || *max >= (1ULL << 60U)) return std::nullopt;
  const std::uint64_t reclaimable = std::min(*used, number_of_line(stat, "inactive_file ").value_or(0));
  const std::uint64_t held = *used - reclaimable;
  return *max > held ? *max - held : 0;
}

std::uint64_t available_memory() {
  std::uint64_t available = meminfo_available(read_file("/proc/meminfo")).value_or(1ULL << 32U);
  const auto group2 =
      cgroup_available(read_file("/sys/fs/cgroup/memory.max"), read_file("/sys/fs/cgroup/memory.current"),
                       read_file("/sys/fs/cgroup/memory.stat"));
  const auto group1 = cgroup_available(read_file("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
                                       read_file("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
                                       read_file("/sys/fs/cgroup/memory/memory.stat"));
  if (group2) available = std::min(available, *group2);
  if (group1) available = std::min(available, *group1);
  return available;
}

std::optional<int> cgroup_cpus(std::string_view cpu_max) {
  const auto space = cpu_max.find(' ');
  if (space == std::string_view::npos || cpu_max.substr(0, 3) == "max") return std::nullopt;
  const auto quota = parse_number(cpu_max.substr(0, space));
  const auto period = parse_number(cpu_max.substr(space + 1));
  if (!quota || !period || *period == 0) return std::nullopt;
  return std::max(1, static_cast<int>((*quota + *period - 1) / *period));
}

int usable_cpus() {
  int cpus = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) cpus = CPU_COUNT(&set);
  if (const auto quota = cgroup_cpus(read_file("/sys/fs/cgroup/cpu.max"))) cpus = std::min(cpus, *quota);
  return std::max(1, cpus);
}

}  // namespace roost::engine
