// The small parts of the host: back-off, connection table, claim slots, refusal log, CPUs, settings.
#include <gmock/gmock.h>
#include <sys/socket.h>

#include <deque>
#include <random>

#include "host/backoff.h"
#include "host/claim_slots.h"
#include "host/connection_table.h"
#include "host/options.h"
#include "host/refusal.h"
#include "host/refusal_log.h"
#include "host/usable_cpus.h"

namespace roost::host {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST(Backoff, DoublesFromItsBaseToThirtySeconds) {
  Backoff backoff(250ms);
  for (const Duration expected : {250ms, 500ms, 1000ms, 2000ms, 4000ms, 8000ms, 16000ms, 30000ms, 30000ms}) {
    EXPECT_EQ(backoff.after_run(1s), expected);
  }
}

TEST(Backoff, ARunOfTenSecondsForgetsTheCrashesBefore) {
  Backoff backoff(250ms);
  for (int i = 0; i < 20; ++i) backoff.after_run(9999ms);
  EXPECT_EQ(backoff.after_run(9999ms), 30s);
  EXPECT_EQ(backoff.after_run(10s), 250ms);
  EXPECT_EQ(backoff.after_run(0s), 500ms);
}

TEST(Backoff, ABaseOfZeroNeverWaits) {
  Backoff backoff(0ms);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(backoff.after_run(0s), 0ms);
}

TEST(ConnectionTable, RandomMovesKeepEachRecordInOneStageInOrder) {
  ConnectionTable table;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> held;  // index, sequence
  std::mt19937 random(3);
  TimePoint now{};
  for (int step = 0; step < 5000; ++step) {
    now += 1ms;
    const auto dice = random() % 10;
    if (held.empty() || (dice < 3 && held.size() < 40)) {
      const std::uint32_t index = table.add(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), now);
      held.emplace_back(index, table.at(index).sequence);
    } else {
      const std::size_t at = random() % held.size();
      const auto [index, sequence] = held[at];
      ASSERT_TRUE(table.is_current(index, sequence));
      if (dice < 6) {
        table.drop(index);
        EXPECT_FALSE(table.is_current(index, sequence));
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(at));
      } else {
        table.move(index, static_cast<Stage>(random() % (kStages - 1) + 1), now);
      }
    }
    ASSERT_EQ(table.held(), held.size());
    table.check_integrity();
  }
}

TEST(ConnectionTable, AnEventOfAnEarlierUserOfTheRecordIsKnown) {
  ConnectionTable table;
  const auto socket = [] { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); };
  const std::uint32_t index = table.add(socket(), TimePoint{});
  const std::uint32_t sequence = table.at(index).sequence;
  table.drop(index);
  ASSERT_EQ(table.add(socket(), TimePoint{}), index) << "the record is used again";
  EXPECT_FALSE(table.is_current(index, sequence));
  EXPECT_FALSE(table.is_current(1000, 0));
}

TEST(ClaimSlots, TicketsAreNeverGivenTwice) {
  ClaimSlots slots(2);
  const auto a = slots.take();
  const auto b = slots.take();
  ASSERT_TRUE(a && b);
  EXPECT_FALSE(slots.take());
  slots.give_back(a->slot);
  const auto c = slots.take();
  ASSERT_TRUE(c);
  EXPECT_EQ(c->slot, a->slot);
  EXPECT_NE(c->number, a->number);
  EXPECT_EQ(slots.used(), 2U);
}

TEST(RefusalLog, KeepsTheLastAndCompletesThemWithTheNextLoads) {
  RefusalLog log(3, 2);
  std::vector<WorkerLoad> loads(2);
  const std::vector<std::uint32_t> ids{1, 2};
  for (std::uint32_t i = 0; i < 5; ++i) {
    loads[0].in_flight = i;
    loads[1].reserved = i + 10;
    log.add(i, 4, loads, ids);
  }
  loads[0].in_flight = 77;
  log.observe(std::span(loads).first(1), std::span(ids).first(1));
  const auto list = log.list();
  ASSERT_EQ(list.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(list[i].unix_seconds, static_cast<double>(i + 2));
    ASSERT_EQ(list[i].workers.size(), 2U);
    EXPECT_EQ(list[i].workers[0].in_flight, i + 2);
    EXPECT_EQ(list[i].workers[1].reserved, i + 12);
    EXPECT_TRUE(list[i].workers[0].next_known);
    EXPECT_EQ(list[i].workers[0].next_in_flight, 77);
    EXPECT_FALSE(list[i].workers[1].next_known) << "not seen since";
  }
}

TEST(RefusalBytes, AgreeWithTheErrorTable) {
  EXPECT_THAT(refusal_bytes(ErrorKind::overloaded), HasSubstr("HTTP/1.1 429 Too Many Requests\r\n"));
  EXPECT_THAT(refusal_bytes(ErrorKind::shutting_down), HasSubstr("HTTP/1.1 503 Service Unavailable\r\n"));
  EXPECT_THAT(refusal_bytes(ErrorKind::shutting_down), HasSubstr("\r\n\r\n{\"error\":\"shutting_down\"}"));
}

TEST(UsableCpus, TheGroupsQuotaIsRoundedUp) {
  EXPECT_EQ(quota_of_cpu_max("200000 100000\n"), 2U);
  EXPECT_EQ(quota_of_cpu_max("150000 100000"), 2U);
  EXPECT_EQ(quota_of_cpu_max("1000 100000"), 1U);
  for (const char* none : {"max 100000", "", "5", "5 0", "x y"}) EXPECT_FALSE(quota_of_cpu_max(none)) << none;
  EXPECT_GE(usable_cpus(), 1U);
}

Result<HostOptions> options_of(Config::Flags flags) {
  const auto config = Config::load(
      kHost, flags, [](std::string_view) { return std::nullopt; }, "", "roost.toml");
  EXPECT_TRUE(config);
  return host_options(*config);
}

TEST(Options, WithoutTurnsPerWorkerTheHostDoesNotStart) {
  const auto options = options_of({});
  ASSERT_FALSE(options);
  EXPECT_EQ(options.error().kind, ErrorKind::bad_config);
  EXPECT_THAT(options.error().message, HasSubstr("SH_TURNS_PER_WORKER"));
}

TEST(Options, ComeFromTheSettings) {
  const auto options = options_of({{"host.turns_per_worker", "7"},
                                   {"host.routing_policy", "stickyBySession"},
                                   {"host.routing_scope", "request"},
                                   {"worker.max_turns", "9"}});
  ASSERT_TRUE(options);
  EXPECT_EQ(options->turns_per_worker, 7U);
  EXPECT_EQ(options->workers, usable_cpus());
  EXPECT_EQ(options->policy, Policy::sticky_by_session);
  EXPECT_EQ(options->scope, Scope::request);
  ASSERT_EQ(options->worker_command.size(), 2U);
  EXPECT_EQ(options->worker_command[1], "worker");
  EXPECT_THAT(options->worker_environment, ::testing::Contains("SH_MAX_TURNS=9"));
}

TEST(Options, TheAdminPortIsAnotherAndItsAddressALiteral) {
  EXPECT_THAT(
      options_of({{"host.turns_per_worker", "1"}, {"host.port", "9"}, {"host.admin_port", "9"}}).error().message,
      HasSubstr("SH_ADMIN_PORT"));
  EXPECT_TRUE(options_of({{"host.turns_per_worker", "1"}, {"host.port", "0"}, {"host.admin_port", "0"}}));
  EXPECT_THAT(options_of({{"host.turns_per_worker", "1"}, {"host.admin_host", "localhost"}}).error().message,
              HasSubstr("localhost"));
}

}  // namespace
}  // namespace roost::host
