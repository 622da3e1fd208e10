// What a worker process inherits from its supervisor: the channel's end, the counter page and which row of it is its
// own, named by these environment variables. Without them a worker has no host.
//
//   ROOST_HANDOFF_CHANNEL_FD   descriptor number of the worker's end of the channel
//   ROOST_HANDOFF_PAGE_FD      descriptor number of the counter page
//   ROOST_HANDOFF_ROW          its row, from 0
//   ROOST_HANDOFF_GENERATION   the row's generation
//   ROOST_WORKER_ID            which of the host's W workers this is, from 1 (for logs)
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace roost::handoff {

inline constexpr std::string_view kChannelFdVariable = "ROOST_HANDOFF_CHANNEL_FD";
inline constexpr std::string_view kPageFdVariable = "ROOST_HANDOFF_PAGE_FD";
inline constexpr std::string_view kRowVariable = "ROOST_HANDOFF_ROW";
inline constexpr std::string_view kGenerationVariable = "ROOST_HANDOFF_GENERATION";
inline constexpr std::string_view kWorkerIdVariable = "ROOST_WORKER_ID";

struct Inheritance {
  int channel_fd = -1;
  int page_fd = -1;
  std::uint32_t row = 0;
  std::uint32_t generation = 0;
  std::uint32_t worker_id = 0;

  std::vector<std::string> as_environment() const;
};

using EnvironmentLookup = std::function<std::optional<std::string>(std::string_view name)>;

// Empty: no host (none of the variables is set). Some set and others not, or not a number: bad_config.
Result<std::optional<Inheritance>> inherited(const EnvironmentLookup& environment);

}  // namespace roost::handoff
