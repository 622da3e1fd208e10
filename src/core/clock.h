// Time comes from a Clock object, so that every rule with a time in it has an exact unit test.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace roost {

using Duration = std::chrono::nanoseconds;
// Time since an arbitrary start; never goes back.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
  // Unix epoch, seconds. For what people and other machines read; never for measuring.
  virtual double unix_seconds() const = 0;
};

// Thread-safe.
class SystemClock final : public Clock {
 public:
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  double unix_seconds() const override {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  }
};

// The clock of a test: stands still until told. Thread-safe.
class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(Duration(nanoseconds_.load())); }
  double unix_seconds() const override { return 1.7e9 + static_cast<double>(nanoseconds_.load()) * 1e-9; }
  void advance(Duration by) { nanoseconds_ += by.count(); }

 private:
  std::atomic<std::int64_t> nanoseconds_{1'000'000'000};
};

inline double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }
inline double milliseconds(Duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

}  // namespace roost
