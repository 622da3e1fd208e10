#include "host/usable_cpus.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace roost::host {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

unsigned affinity_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return static_cast<unsigned>(std::max(CPU_COUNT(&set), 1));
  return std::max(std::thread::hardware_concurrency(), 1U);
}

// The path of this process in the unified hierarchy: the line "0::/path" of /proc/self/cgroup.
std::string unified_group() {
  const std::string text = read_file("/proc/self/cgroup");
  const std::size_t at = text.rfind("0::", 0) == 0 ? 0 : text.find("\n0::");
  if (at == std::string::npos) return {};
  const std::size_t from = text.find("::", at) + 2;
  return text.substr(from, text.find('\n', from) - from);
}

std::optional<unsigned> group_quota() {
  std::optional<unsigned> least;
  // A parent's quota binds too.
  for (std::string group = unified_group(); !group.empty();) {
    if (const auto quota = quota_of_cpu_max(read_file("/sys/fs/cgroup" + group + "/cpu.max"))) {
      least = std::min(least.value_or(*quota), *quota);
    }
    group = group.substr(0, group.find_last_of('/'));
  }
  // In a container its own group is mounted as the root.
  if (const auto quota = quota_of_cpu_max(read_file("/sys/fs/cgroup/cpu.max"))) {
    least = std::min(least.value_or(*quota), *quota);
  }
  return least;
}

}  // namespace

std::optional<unsigned> quota_of_cpu_max(std::string_view text) {
  unsigned long quota = 0;
  unsigned long period = 0;
  const auto first = std::from_chars(text.data(), text.data() + text.size(), quota);
  if (first.ec != std::errc{} || first.ptr == text.data() + text.size() || *first.ptr != ' ') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, text.data() + text.size(), period);
  if (second.ec != std::errc{} || period == 0) return std::nullopt;
  return static_cast<unsigned>(std::max((quota + period - 1) / period, 1UL));
}

unsigned usable_cpus() {
  const unsigned cpus = affinity_cpus();
  return std::min(cpus, group_quota().value_or(cpus));
}

}  // namespace roost::host
