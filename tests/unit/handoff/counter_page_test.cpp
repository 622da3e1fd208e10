#include "handoff/counter_page.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <random>
#include <thread>
#include <vector>

#include "handoff/turn_places.h"

namespace roost::handoff {
namespace {

TEST(LoadWord, EveryFieldSurvivesPackingAtItsBounds) {
  for (const Load& load : {Load{}, Load{kMaxGeneration, kMaxOpen, kMaxPlaces, kMaxPlaces}, Load{1, 2, 3, 4},
                           Load{kMaxGeneration, 0, 0, kMaxPlaces}, Load{0, kMaxOpen, 0, 0}}) {
    EXPECT_EQ(unpack(pack(load)), load);
  }
}

TEST(CounterPage, AReservationBecomesATurnAndEnds) {
  auto page = CounterPage::create(2, 4);
  ASSERT_TRUE(page);
  const Row row = page->assign(1, 2);
  EXPECT_TRUE(row.try_reserve());
  EXPECT_EQ(row.load().reserved, 1U);
  EXPECT_TRUE(row.start_reserved());
  EXPECT_EQ(row.load().in_flight, 1U);
  EXPECT_EQ(row.load().reserved, 0U);
  EXPECT_TRUE(row.try_start());
  EXPECT_FALSE(row.try_reserve()) << "S is 2";
  EXPECT_FALSE(row.try_start());
  EXPECT_TRUE(row.end_turn());
  EXPECT_TRUE(row.try_reserve());
  EXPECT_TRUE(row.release_reservation());
  EXPECT_TRUE(row.end_turn());
  EXPECT_EQ(row.load().places_taken(), 0U);
  EXPECT_FALSE(row.end_turn()) << "nothing goes below zero";
  EXPECT_FALSE(row.release_reservation());
  EXPECT_FALSE(row.start_reserved());
  EXPECT_FALSE(row.close_connection());
  page->check_integrity();
}

TEST(CounterPage, ARetiredProcessCanChangeNothing) {
  auto page = CounterPage::create(1, 1);
  const Row old = page->assign(0, 4);
  ASSERT_TRUE(old.try_start());
  page->retire(old);
  EXPECT_FALSE(old.owned());
  EXPECT_FALSE(old.end_turn());
  EXPECT_EQ(old.load(), Load{});
  const Row next = page->assign(0, 4);
  EXPECT_NE(next.generation(), old.generation());
  EXPECT_EQ(next.load().in_flight, 0U);
  EXPECT_FALSE(old.try_start());
  page->retire(old);
  EXPECT_TRUE(next.owned()) << "an old handle does not retire the new process";
}

TEST(CounterPage, TheGenerationWrapsPastZero) {
  auto page = CounterPage::create(1, 1);
  for (std::uint32_t i = 0; i < 2 * kMaxGeneration; ++i) {
    const Row row = page->assign(0, 1);
    ASSERT_GE(row.generation(), 1U);
    ASSERT_LE(row.generation(), kMaxGeneration);
    ASSERT_TRUE(row.owned());
  }
}

TEST(CounterPage, AnotherMappingSeesTheSameCounts) {
  auto page = CounterPage::create(3, 8);
  const Row row = page->assign(2, 5);
  auto other = CounterPage::open(UniqueFd(::dup(page->fd())));
  ASSERT_TRUE(other);
  auto attached = other->attach(2, row.generation());
  ASSERT_TRUE(attached);
  EXPECT_EQ(attached->capacity(), 5U);
  ASSERT_TRUE(row.try_reserve());
  EXPECT_TRUE(attached->start_reserved());
  EXPECT_EQ(row.load().in_flight, 1U);
  EXPECT_FALSE(other->attach(3, 1));
  EXPECT_FALSE(other->attach(0, 0));
}

TEST(CounterPage, ADescriptorThatIsNotAPageIsRefused) {
  EXPECT_FALSE(CounterPage::open(UniqueFd(::memfd_create("empty", MFD_CLOEXEC))));
  UniqueFd zeros(::memfd_create("zeros", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(zeros.get(), 4096), 0);
  EXPECT_EQ(CounterPage::open(std::move(zeros)).error().kind, ErrorKind::bad_config);
  EXPECT_FALSE(CounterPage::open(UniqueFd()));
}

TEST(CounterPage, AClaimIsWonByExactlyOneSide) {
  auto page = CounterPage::create(1, 1);
  for (std::uint64_t ticket = 1; ticket <= 2000; ++ticket) {
    page->open_claim(0, ticket);
    bool claimed = false;
    std::thread worker([&] { claimed = page->claim(0, ticket); });
    const bool taken = page->take_back(0, ticket);
    worker.join();
    ASSERT_NE(claimed, taken);
    ASSERT_EQ(page->claim_state(0, ticket), claimed ? ClaimState::claimed : ClaimState::closed);
  }
}

TEST(CounterPage, AnOldTicketWinsNothingWhenTheSlotIsUsedAgain) {
  auto page = CounterPage::create(1, 2);
  page->open_claim(1, 10);
  ASSERT_TRUE(page->take_back(1, 10));
  page->open_claim(1, 11);
  EXPECT_FALSE(page->claim(1, 10));
  EXPECT_FALSE(page->decline(1, 10));
  EXPECT_EQ(page->claim_state(1, 10), ClaimState::closed);
  EXPECT_TRUE(page->decline(1, 11));
  EXPECT_EQ(page->claim_state(1, 11), ClaimState::declined);
  EXPECT_FALSE(page->claim(77, 11)) << "a slot that does not exist";
}

TEST(CounterPage, NoWordIsEverAboveItsCapacityUnderContention) {
  auto page = CounterPage::create(1, 1);
  constexpr std::uint32_t kCapacity = 3;
  const Row row = page->assign(0, kCapacity);
  std::atomic<bool> above{false};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 20'000; ++i) {
        if (row.load().places_taken() > kCapacity) above = true;
        if (random() % 2 == 0) {
          if (!row.try_reserve()) continue;
          if (random() % 4 == 0) {
            row.release_reservation();
            continue;
          }
          row.start_reserved();
        } else if (!row.try_start()) {
          continue;
        }
        row.end_turn();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_FALSE(above);
  EXPECT_EQ(row.load().places_taken(), 0U);
  page->check_integrity();
}

// Every operation against a model that is too simple to be wrong.
TEST(CounterPage, RandomOperationsMatchANaiveModel) {
  constexpr std::uint32_t kRows = 3;
  auto page = CounterPage::create(kRows, 1);
  struct Model {
    Row row;
    std::uint32_t capacity = 0, reserved = 0, in_flight = 0, open = 0;
    bool alive = false;
  };
  std::vector<Model> models(kRows);
  std::mt19937 random(20'260'731);
  for (int step = 0; step < 50'000; ++step) {
    const auto at = static_cast<std::uint32_t>(random() % kRows);
    Model& m = models[at];
    const bool room = m.alive && m.reserved + m.in_flight < m.capacity;
    const auto expect = [&](bool done, bool possible) { ASSERT_EQ(done, m.alive && possible) << "step " << step; };
    switch (random() % 9) {
      case 0:
        if (random() % 20 != 0) break;
        m = {};
        m.capacity = static_cast<std::uint32_t>(random() % 5 + 1);
        m.row = page->assign(at, m.capacity);
        m.alive = true;
        break;
      case 1:
        if (random() % 20 != 0) break;
        page->retire(m.row);
        m.alive = false;
        break;
      case 2:
        expect(m.row.try_reserve(), room);
        m.reserved += room ? 1 : 0;
        break;
      case 3:
        expect(m.row.release_reservation(), m.reserved > 0);
        m.reserved -= m.alive && m.reserved > 0 ? 1 : 0;
        break;
      case 4:
        expect(m.row.start_reserved(), m.reserved > 0);
        if (m.alive && m.reserved > 0) --m.reserved, ++m.in_flight;
        break;
      case 5:
        expect(m.row.try_start(), room);
        m.in_flight += room ? 1 : 0;
        break;
      case 6:
        expect(m.row.end_turn(), m.in_flight > 0);
        m.in_flight -= m.alive && m.in_flight > 0 ? 1 : 0;
        break;
      case 7:
        expect(m.row.open_connection(), true);
        m.open += m.alive ? 1 : 0;
        break;
      case 8:
        expect(m.row.close_connection(), m.open > 0);
        m.open -= m.alive && m.open > 0 ? 1 : 0;
        break;
    }
    const Load load = m.row.load();
    ASSERT_EQ(load.reserved, m.alive ? m.reserved : 0) << "step " << step;
    ASSERT_EQ(load.in_flight, m.alive ? m.in_flight : 0) << "step " << step;
    ASSERT_EQ(load.open, m.alive ? m.open : 0) << "step " << step;
    page->check_integrity();
  }
}

TEST(TurnPlaces, AFreedPlaceGoesToTheFirstThatWaits) {
  auto page = CounterPage::create(1, 1);
  TurnPlaces places(page->assign(0, 1));
  ASSERT_TRUE(places.try_start());
  std::vector<int> order;
  places.wait([&] { order.push_back(1); });
  const auto second = places.wait([&] { order.push_back(2); });
  places.wait([&] { order.push_back(3); });
  places.cancel(second);
  places.end_turn();
  EXPECT_EQ(order, std::vector{1});
  EXPECT_EQ(places.row().load().in_flight, 1U) << "handed on, not freed";
  EXPECT_FALSE(places.try_start()) << "no one passes those that wait";
  places.end_turn();
  places.end_turn();
  EXPECT_EQ(order, (std::vector{1, 3}));
  EXPECT_EQ(places.row().load().in_flight, 0U);
}

TEST(TurnPlaces, APlaceThatTheSupervisorFreedIsFound) {
  auto page = CounterPage::create(1, 1);
  const Row supervisors = page->assign(0, 1);
  TurnPlaces places(supervisors);
  ASSERT_TRUE(supervisors.try_reserve());
  bool granted = false;
  places.wait([&] { granted = true; });
  places.admit();
  EXPECT_FALSE(granted);
  ASSERT_TRUE(supervisors.release_reservation());
  places.admit();
  EXPECT_TRUE(granted);
}

}  // namespace
}  // namespace roost::handoff
