// The p99 of an event loop's lag over its last samples. Both supervisor and worker report it. Allocates nothing after
// construction; belongs to one thread.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace roost::handoff {

class LagWindow {
 public:
  static constexpr std::size_t kSamples = 512;

  void add(std::chrono::nanoseconds lag) {
    samples_[next_] = std::max<std::int64_t>(lag.count(), 0);
    next_ = (next_ + 1) % kSamples;
    count_ = std::min(count_ + 1, kSamples);
  }

  // Empty before the first sample.
  std::optional<std::chrono::nanoseconds> p99() {
    if (count_ == 0) return std::nullopt;
    std::copy_n(samples_.begin(), count_, sorted_.begin());
    const std::size_t rank = (count_ * 99 + 99) / 100 - 1;
    std::nth_element(sorted_.begin(), sorted_.begin() + static_cast<std::ptrdiff_t>(rank),
                     sorted_.begin() + static_cast<std::ptrdiff_t>(count_));
    return std::chrono::nanoseconds(sorted_[rank]);
  }

 private:
  std::array<std::int64_t, kSamples> samples_{};
  std::array<std::int64_t, kSamples> sorted_{};
  std::size_t next_ = 0;
  std::size_t count_ = 0;
};

}  // namespace roost::handoff
