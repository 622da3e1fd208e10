#include "engine/tps_meter.h"

#include <gtest/gtest.h>

#include <cmath>

namespace roost::engine {
namespace {

TimePoint at(double s) { return TimePoint(Duration(static_cast<std::int64_t>(s * 1e9))); }

TEST(TpsMeter, ASteadyStreamReadsExactlyItsRate) {
  TpsMeter meter(2.0);
  for (int i = 0; i < 20; ++i) {
    meter.emit(at(10 + i * 0.1), 1);
    if (i >= 1) {
      EXPECT_NEAR(meter.rate(at(10 + i * 0.1)), 10.0, 1e-6);
    }
  }
  EXPECT_NEAR(meter.rate(at(10 + 1.9 + 0.05)), 10.0, 1e-6) << "between two tokens nothing is late yet";
}

TEST(TpsMeter, TheWindowIsTheOneOfTheFormula) {
  TpsMeter meter(2.0);
  meter.emit(at(0), 1);
  meter.emit(at(0.5), 1);
  meter.emit(at(1.5), 3);
  const double n = 1 * std::exp(-1.0 / 2.0) + 3;
  const double t = 0.5 * std::exp(-1.0 / 2.0) + 1.0;
  EXPECT_NEAR(meter.rate(at(1.5)), n / t, 1e-9);
}

TEST(TpsMeter, AStallShowsAtOnceAndFallsToNothing) {
  TpsMeter meter(2.0);
  for (int i = 0; i < 50; ++i) meter.emit(at(i * 0.1), 1);
  EXPECT_LT(meter.rate(at(4.9 + 1.0)), 8.0);
  EXPECT_LT(meter.rate(at(4.9 + 10.0)), 0.2);
}

TEST(TpsMeter, ASessionIsWarmingUntilItsEighthToken) {
  TpsMeter meter(2.0);
  for (int i = 0; i < 7; ++i) meter.emit(at(i * 0.1), 1);
  EXPECT_EQ(meter.tps(at(0.6)), 0.0);
  meter.emit(at(0.7), 1);
  EXPECT_NEAR(meter.tps(at(0.7)), 10.0, 1e-6);
}

TEST(TpsMeter, NoTimeNoRate) {
  TpsMeter meter(2.0);
  EXPECT_EQ(meter.rate(at(1)), 0.0);
  meter.emit(at(1), 1);
  meter.emit(at(1), 1);
  EXPECT_EQ(meter.rate(at(1)), 0.0);
}

}  // namespace
}  // namespace roost::engine
