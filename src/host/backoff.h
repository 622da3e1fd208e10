// How long a crashed worker waits before it is started again. Pure.
#pragma once

#include <algorithm>
#include <chrono>

#include "core/clock.h"

namespace roost::host {

class Backoff {
 public:
  static constexpr Duration kCap = std::chrono::seconds(30);
  static constexpr Duration kHealthyRun = std::chrono::seconds(10);  // a run this long forgets the crashes before it

  explicit Backoff(Duration base) : base_(base) {}

  // The delay after a run of that length ended: base, 2 x base, 4 x base, ... at most kCap.
  Duration after_run(Duration run) {
    if (run >= kHealthyRun) crashes_ = 0;
    Duration delay = base_;
    for (unsigned i = 0; i < crashes_ && delay < kCap; ++i) delay *= 2;
    if (delay < kCap) ++crashes_;
    return std::min(delay, kCap);
  }

 private:
  Duration base_;
  unsigned crashes_ = 0;
};

}  // namespace roost::host
