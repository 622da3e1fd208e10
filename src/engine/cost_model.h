// CostModel: what a step will take, learned online from what steps took.
//
//   ms = c0 + c1 * decoding sessions + c2 * prefill tokens + c3 * KV tokens read / 1000,   all c >= 0
//
// Least squares of the relative error over a window that forgets (each step weighs 0.98 of the next), with a weak prior
// so that it is defined before the first step. Pure, no clock.
#pragma once

#include <array>
#include <cstdint>

namespace roost::engine {

struct StepShape {
  double decoding = 0;  // sessions that decode one token
  double prefill = 0;   // prompt tokens
  double kv_read = 0;   // cached tokens that all of these look back at, summed
};

class CostModel {
 public:
  void observe(const StepShape& shape, double ms);
  double predict_ms(const StepShape& shape) const;

 private:
  static constexpr std::size_t kTerms = 4;
  using Vector = std::array<double, kTerms>;

  static Vector features(const StepShape& shape);
  void solve();

  // Guesses for a small CPU box: a step 1 ms, a token 1 ms, 1,000 KV tokens read 0.01 ms. One observation outweighs
  // them 100-fold.
  static constexpr Vector kPrior{1.0, 1.0, 1.0, 0.01};
  static constexpr double kPriorWeight = 0.01;
  static constexpr double kForget = 0.98;

  std::array<Vector, kTerms> products_{};  // sum of w x x'
  Vector targets_{};                       // sum of w x y
  Vector cost_ = kPrior;
};

}  // namespace roost::engine
