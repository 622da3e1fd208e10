#include "handoff/inherit.h"

#include <fmt/format.h>

#include <charconv>

namespace roost::handoff {
namespace {

Result<std::uint32_t> number(std::string_view name, const std::optional<std::string>& text) {
  std::uint32_t value = 0;
  const char* end = text ? text->data() + text->size() : nullptr;
  if (!text || text->empty() || std::from_chars(text->data(), end, value).ptr != end || value > 0x7fffffffU) {
    return Error{ErrorKind::bad_config,
                 fmt::format("{} must be a whole number; it is set by `roost host`, not by hand", name),
                 {},
                 {}};
  }
  return value;
}

}  // namespace

std::vector<std::string> Inheritance::as_environment() const {
  return {fmt::format("{}={}", kChannelFdVariable, channel_fd), fmt::format("{}={}", kPageFdVariable, page_fd),
          fmt::format("{}={}", kRowVariable, row), fmt::format("{}={}", kGenerationVariable, generation),
          fmt::format("{}={}", kWorkerIdVariable, worker_id)};
}

Result<std::optional<Inheritance>> inherited(const EnvironmentLookup& environment) {
  const auto channel = environment(kChannelFdVariable);
  const auto page = environment(kPageFdVariable);
  if (!channel && !page) return std::optional<Inheritance>{};
  ROOST_TRY(channel_fd, number(kChannelFdVariable, channel));
  ROOST_TRY(page_fd, number(kPageFdVariable, page));
  ROOST_TRY(row, number(kRowVariable, environment(kRowVariable)));
  ROOST_TRY(generation, number(kGenerationVariable, environment(kGenerationVariable)));
  ROOST_TRY(worker_id, number(kWorkerIdVariable, environment(kWorkerIdVariable)));
  return std::optional(
      Inheritance{static_cast<int>(channel_fd), static_cast<int>(page_fd), row, generation, worker_id});
}

}  // namespace roost::handoff
