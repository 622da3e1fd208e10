// The host's named limits that are not settings; listed at /config with those of core/limits.h.
#pragma once

#include <array>

#include "core/limits.h"

namespace roost::host {

inline constexpr std::size_t kHandOffsUnderWay = 4096;
inline constexpr std::size_t kRefusedBytes = 64 * 1024;
inline constexpr std::size_t kAffinitySessions = 10'000;
inline constexpr std::size_t kAdminConnections = 64;

inline constexpr std::array kHostLimits{
    limits::Limit{"handoffs_under_way", kHandOffsUnderWay,
                  "connections given to a worker and not claimed yet; more wait"},
    limits::Limit{"refused_bytes", kRefusedBytes,
                  "bytes of a refused request that are read and dropped before closing"},
    limits::Limit{"affinity_sessions", kAffinitySessions, "sessions whose worker stickyBySession remembers"},
    limits::Limit{"admin_connections", kAdminConnections, "connections to the admin port"},
};

}  // namespace roost::host
