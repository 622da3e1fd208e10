// How many CPUs this process may use: its affinity, bounded by its control group's quota.
#pragma once

#include <optional>
#include <string_view>

namespace roost::host {

// At least 1.
unsigned usable_cpus();

// The quota in "cpu.max" (cgroup v2): "200000 100000" is 2; "max 100000" and anything malformed is none. Rounded up, at
// least 1.
std::optional<unsigned> quota_of_cpu_max(std::string_view text);

}  // namespace roost::host
