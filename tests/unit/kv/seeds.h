// Seeds of randomized tests: fixed ones, and ROOST_TEST_SEED=n to replay or explore. A failing run prints its seed.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <random>
#include <vector>

namespace roost::test {

inline std::vector<std::uint64_t> seeds(std::uint64_t how_many) {
  if (const char* given = std::getenv("ROOST_TEST_SEED")) return {std::strtoull(given, nullptr, 10)};
  std::vector<std::uint64_t> result;
  for (std::uint64_t seed = 1; seed <= how_many; ++seed) result.push_back(seed);
  return result;
}

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : engine_(seed) {}
  // From `low` to `high`, both included. (Not std::uniform_int_distribution, whose numbers differ between libraries.)
  int roll(int low, int high) { return low + static_cast<int>(engine_() % static_cast<std::uint64_t>(high - low + 1)); }
  bool one_in(int n) { return roll(1, n) == 1; }
  template <class C>
  auto& pick(C& c) {
    return c[static_cast<std::size_t>(roll(0, static_cast<int>(c.size()) - 1))];
  }

 private:
  std::mt19937_64 engine_;
};

}  // namespace roost::test
