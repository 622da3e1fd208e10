#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <random>

#include "host/routing_policy.h"
#include "host/sticky_by_session.h"

namespace roost::host {
namespace {

using namespace std::chrono_literals;

WorkerLoad worker(std::uint32_t serial, std::uint32_t taken, Duration idle_since = 0s, std::uint32_t capacity = 4) {
  return {serial, serial, 0, taken, capacity, TimePoint(idle_since)};
}

TEST(LeastInFlight, TheLeastLoadedIsChosenCountingReservations) {
  std::vector<WorkerLoad> loads{worker(1, 2), worker(2, 1), worker(3, 3)};
  EXPECT_EQ(least_in_flight(loads, true), 1U);
  loads[1].reserved = 2;
  EXPECT_EQ(least_in_flight(loads, true), 0U);
}

TEST(LeastInFlight, OfEqualOnesTheIdleLongestIsChosen) {
  const std::vector<WorkerLoad> loads{worker(1, 1, 30s), worker(2, 1, 10s), worker(3, 1, 20s)};
  EXPECT_EQ(least_in_flight(loads, true), 1U);
}

TEST(LeastInFlight, AtSaturationOnlyWhatNeedsNoPlaceIsTaken) {
  const std::vector<WorkerLoad> loads{worker(1, 4), worker(2, 4)};
  EXPECT_FALSE(least_in_flight(loads, true));
  EXPECT_TRUE(least_in_flight(loads, false));
  EXPECT_FALSE(least_in_flight({}, false));
}

TEST(SessionKey, OnlyTheEmptyIdIsZero) {
  EXPECT_EQ(session_key(""), 0U);
  EXPECT_NE(session_key("a"), 0U);
  EXPECT_NE(session_key("a"), session_key("b"));
}

Choice carry_out(StickyBySession& policy, std::span<const WorkerLoad> loads, RouteRequest request) {
  const auto choice = policy.choose(loads, request);
  EXPECT_TRUE(choice);
  policy.assigned(loads[choice->at], request, choice->affinity);
  policy.check_integrity();
  return *choice;
}

TEST(Sticky, ASessionStaysAlsoWithABusierWorker) {
  StickyBySession policy;
  std::vector<WorkerLoad> loads{worker(1, 0), worker(2, 1)};
  EXPECT_EQ(carry_out(policy, loads, {true, 7}).affinity, Affinity::none) << "its first turn";
  loads[0].in_flight = 3;
  const Choice again = carry_out(policy, loads, {true, 7});
  EXPECT_EQ(again.at, 0U);
  EXPECT_EQ(again.affinity, Affinity::hit);
  EXPECT_EQ(carry_out(policy, loads, {true, 8}).at, 1U) << "another session";
  EXPECT_EQ(carry_out(policy, loads, {true, 0}).affinity, Affinity::none) << "no session";
}

TEST(Sticky, AFullPinSendsThisTurnElsewhereAndStays) {
  StickyBySession policy;
  std::vector<WorkerLoad> loads{worker(1, 0), worker(2, 1)};
  carry_out(policy, loads, {true, 7});
  loads[0].in_flight = 4;
  const Choice other = carry_out(policy, loads, {true, 7});
  EXPECT_EQ(other.at, 1U);
  EXPECT_EQ(other.affinity, Affinity::full);
  EXPECT_EQ(carry_out(policy, loads, {false, 7}).at, 0U) << "a cancel finds its session at S too";
  loads[0].in_flight = 0;
  EXPECT_EQ(carry_out(policy, loads, {true, 7}).affinity, Affinity::hit);
}

TEST(Sticky, ADeadPinMoves) {
  StickyBySession policy;
  carry_out(policy, std::vector{worker(1, 0), worker(2, 1)}, {true, 7});
  const std::vector<WorkerLoad> restarted{worker(3, 2), worker(2, 1)};
  const Choice moved = carry_out(policy, restarted, {true, 7});
  EXPECT_EQ(moved.affinity, Affinity::lost);
  EXPECT_EQ(moved.at, 1U);
  EXPECT_EQ(carry_out(policy, restarted, {true, 7}).affinity, Affinity::hit);
}

TEST(Sticky, TheLeastRecentlyUsedSessionIsForgotten) {
  StickyBySession policy(3);
  const std::vector<WorkerLoad> loads{worker(1, 0)};
  for (const std::uint64_t session : {1, 2, 3, 1, 4}) carry_out(policy, loads, {true, session});
  EXPECT_EQ(policy.pins(), 3U);
  EXPECT_EQ(policy.choose(loads, {true, 2})->affinity, Affinity::none) << "2 was used longest ago";
  for (const std::uint64_t session : {1, 3, 4}) {
    EXPECT_EQ(policy.choose(loads, {true, session})->affinity, Affinity::hit) << session;
  }
}

TEST(Sticky, RandomUseMatchesANaiveList) {
  constexpr std::size_t kPins = 16;
  StickyBySession policy(kPins);
  std::list<std::pair<std::uint64_t, std::uint32_t>> model;  // newest first: session, serial
  std::mt19937 random(11);
  std::uint32_t next_serial = 5;
  std::vector<WorkerLoad> loads{worker(1, 0), worker(2, 0), worker(3, 0), worker(4, 0)};
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 50 == 0) loads[random() % loads.size()].serial = next_serial++;
    for (WorkerLoad& l : loads) l.in_flight = static_cast<std::uint32_t>(random() % 5);
    const std::uint64_t session = random() % 30 + 1;
    const auto choice = policy.choose(loads, {true, session});
    const auto pin = std::ranges::find(model, session, [](const auto& p) { return p.first; });
    const auto home = pin == model.end() ? loads.end() : std::ranges::find(loads, pin->second, &WorkerLoad::serial);
    const bool any_room = std::ranges::any_of(loads, &WorkerLoad::has_room);
    ASSERT_EQ(choice.has_value(), any_room);
    if (!choice) continue;
    Affinity expected = Affinity::none;
    if (pin != model.end()) {
      expected = home == loads.end() ? Affinity::lost : home->has_room() ? Affinity::hit : Affinity::full;
    }
    ASSERT_EQ(choice->affinity, expected) << step;
    if (expected == Affinity::hit) {
      ASSERT_EQ(choice->at, static_cast<std::size_t>(home - loads.begin()));
    }
    const std::uint32_t serial = expected == Affinity::full ? pin->second : loads[choice->at].serial;
    if (pin != model.end()) model.erase(pin);
    model.emplace_front(session, serial);
    if (model.size() > kPins) model.pop_back();
    policy.assigned(loads[choice->at], {true, session}, choice->affinity);
    policy.check_integrity();
  }
}

}  // namespace
}  // namespace roost::host
