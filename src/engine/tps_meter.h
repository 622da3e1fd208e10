// TpsMeter: tokens per second as a reader of the stream experiences them. Pure: time is passed in.
//
// A bias-free exponential window with time constant tau. At each emission, dt after the one before:
//   N <- N * exp(-dt/tau) + tokens,   T <- T * exp(-dt/tau) + dt,   tps = N / T
// so a steady stream reads exactly its rate from its second token on. A read counts the open interval as soon as it is
// longer than the rate lets expect: the value is then what it would be if the next token came now, so a stall shows at
// once and a read between two tokens of a steady stream is not biased.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

#include "core/clock.h"

namespace roost::engine {

class TpsMeter {
 public:
  static constexpr std::int64_t kWarmTokens = 8;  // below this many tokens a session is warming and reads 0

  explicit TpsMeter(double tau_s) : tau_s_(tau_s) {}

  // An interval begins here; without it the first emission does that, and its tokens are in no interval.
  void start(TimePoint now) { last_ = now; }

  void emit(TimePoint now, std::int64_t tokens) {
    total_ += tokens;
    if (last_) {
      const double dt = seconds(now - *last_);
      const double weight = std::exp(-dt / tau_s_);
      tokens_ = tokens_ * weight + static_cast<double>(tokens);
      time_ = time_ * weight + dt;
    }
    last_ = now;
    last_tokens_ = tokens;
  }

  double rate(TimePoint now) const {
    if (!last_ || time_ <= 0) return 0;
    const double open = seconds(now - *last_);
    const double weight = std::exp(-open / tau_s_);
    const double if_now = (tokens_ * weight + static_cast<double>(last_tokens_)) / (time_ * weight + open);
    return std::fmin(tokens_ / time_, if_now);
  }

  bool warming() const { return total_ < kWarmTokens; }
  double tps(TimePoint now) const { return warming() ? 0.0 : rate(now); }
  std::int64_t total() const { return total_; }
  void reset() { *this = TpsMeter(tau_s_); }

 private:
  double tau_s_;
  double tokens_ = 0;  // N
  double time_ = 0;    // T, seconds
  std::int64_t total_ = 0, last_tokens_ = 0;
  std::optional<TimePoint> last_;
};

}  // namespace roost::engine
