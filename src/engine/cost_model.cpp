#include "engine/cost_model.h"

#include <algorithm>

namespace roost::engine {

CostModel::Vector CostModel::features(const StepShape& s) { return {1.0, s.decoding, s.prefill, s.kv_read / 1000.0}; }

void CostModel::observe(const StepShape& shape, double ms) {
  const Vector x = features(shape);
  // Relative errors: a long prefill step must not drown what the short steps say. 0.05 ms keeps it finite.
  const double scale = std::max(ms, 0.05);
  const double weight = 1.0 / (scale * scale);
  for (std::size_t i = 0; i < kTerms; ++i) {
    for (std::size_t j = 0; j < kTerms; ++j) products_[i][j] = products_[i][j] * kForget + weight * x[i] * x[j];
    targets_[i] = targets_[i] * kForget + weight * x[i] * ms;
  }
  solve();
}

// Coordinate descent with the bound c >= 0; from the last solution a few rounds do.
void CostModel::solve() {
  constexpr int kRounds = 30;
  for (int round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < kTerms; ++i) {
      const double ridge = kPriorWeight / (kPrior[i] * kPrior[i]);
      double rest = targets_[i] + ridge * kPrior[i];
      for (std::size_t j = 0; j < kTerms; ++j) {
        if (j != i) rest -= products_[i][j] * cost_[j];
      }
      cost_[i] = std::max(0.0, rest / (products_[i][i] + ridge));
    }
  }
}

double CostModel::predict_ms(const StepShape& shape) const {
  const Vector x = features(shape);
  double ms = 0;
  for (std::size_t i = 0; i < kTerms; ++i) ms += cost_[i] * x[i];
  return ms;
}

}  // namespace roost::engine
