// The host's life: keep-alive and routing scopes, drain, reload, workers that refuse to start.
#include <gmock/gmock.h>

#include "running_host.h"

namespace roost::host {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

std::optional<Answer> ask_on(Client& client, std::string_view request) {
  if (!client.send(request)) return std::nullopt;
  return client.read_answer();
}

TEST(ScopeConnection, ASecondRequestStaysWithItsWorkerAlsoWithAnotherSession) {
  HostOptions options = RunningHost::options(2, 4);
  options.policy = Policy::sticky_by_session;
  RunningHost host(std::move(options));
  Client client(host.port());
  const auto first = ask_on(client, turn_request("a", "X-SH-Session-Id: one\r\n"));
  ASSERT_TRUE(first);
  for (const char* session : {"two", "three", "four"}) {
    const auto next = ask_on(client, turn_request("b", "X-SH-Session-Id: " + std::string(session) + "\r\n"));
    ASSERT_TRUE(next);
    EXPECT_EQ(RunningHost::pid_of(*next), RunningHost::pid_of(*first));
  }
  EXPECT_EQ(host.counters().returns, 0U);
  EXPECT_TRUE(eventually([&] { return host.counters().handoffs == 1; }));
}

TEST(ScopeConnection, ATurnBeyondItsWorkersPlacesGoesToAnotherWorkerUnread) {
  RunningHost host(2, 1);
  Client kept(host.port());
  const auto first = ask_on(kept, turn_request("first"));
  ASSERT_TRUE(first);
  const int home = RunningHost::pid_of(*first);
  ASSERT_TRUE(host.in_flight_becomes(0));
  // Fill that worker's place.
  std::vector<std::unique_ptr<Client>> busy;
  const auto home_is_full = [&] {
    for (const WorkerView& w : host.view().workers()) {
      if (w.pid == home) return w.row.load().in_flight == 1;
    }
    return false;
  };
  while (!home_is_full()) {
    ASSERT_LT(busy.size(), 2U);
    busy.push_back(std::make_unique<Client>(host.port()));
    ASSERT_TRUE(busy.back()->send(turn_request("", "X-Stream: 1000\r\nX-Wait-Ms: 20\r\n")));
    ASSERT_TRUE(busy.back()->read_until("data: 0"));
  }
  if (busy.size() == 2) busy.front()->close();  // the other worker's
  ASSERT_TRUE(host.in_flight_becomes(1));

  const std::string body(5000, 'z');
  const auto moved = ask_on(kept, turn_request(body));
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->status, 200);
  EXPECT_NE(RunningHost::pid_of(*moved), home);
  EXPECT_THAT(moved->body, HasSubstr("\n" + body));
  EXPECT_EQ(host.counters().returns, 1U);
}

TEST(ScopeConnection, WithEveryPlaceTakenALaterTurnIsRefusedAndAProbeIsServed) {
  RunningHost host(1, 1);
  Client kept(host.port());
  ASSERT_TRUE(ask_on(kept, get_request("/health")));
  Client busy(host.port());
  ASSERT_TRUE(busy.send(turn_request("", "X-Stream: 1000\r\nX-Wait-Ms: 20\r\n")));
  ASSERT_TRUE(busy.read_until("data: 0"));
  const auto probe = ask_on(kept, get_request("/health"));
  ASSERT_TRUE(probe);
  EXPECT_EQ(probe->status, 200);
  const auto refused = ask_on(kept, turn_request());
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 429);
}

TEST(ScopeConnection, IdleKeptConnectionsHoldNoPlace) {
  RunningHost host(2, 2);
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 8; ++i) {
    idle.push_back(std::make_unique<Client>(host.port()));
    const auto answer = ask_on(*idle.back(), turn_request());
    ASSERT_TRUE(answer);
    ASSERT_EQ(answer->status, 200);
    ASSERT_TRUE(host.in_flight_becomes(0));
  }
  EXPECT_EQ(host.load().open, 8U);
  const auto answer = ask(host.port(), turn_request());
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
}

TEST(ScopeConnection, PipelinedTurnsAreAnsweredInOrderOnOnePlace) {
  RunningHost host(1, 1);
  Client client(host.port());
  ASSERT_TRUE(client.send(turn_request("one", "X-Wait-Ms: 20\r\n") + turn_request("two") + get_request("/health")));
  for (const char* expected : {"one", "two", "ok"}) {
    const auto answer = client.read_answer();
    ASSERT_TRUE(answer);
    EXPECT_THAT(answer->body, HasSubstr(expected));
  }
  EXPECT_TRUE(host.in_flight_becomes(0));
}

TEST(ScopeRequest, EachRequestOfAConnectionIsRoutedAfresh) {
  HostOptions options = RunningHost::options(2, 4);
  options.scope = Scope::request;
  options.policy = Policy::sticky_by_session;
  RunningHost host(std::move(options));
  Client client(host.port());
  std::map<std::string, int> homes;
  for (int round = 0; round < 3; ++round) {
    for (const char* session : {"one", "two"}) {
      const auto answer = ask_on(client, turn_request("x", "X-SH-Session-Id: " + std::string(session) + "\r\n"));
      ASSERT_TRUE(answer);
      ASSERT_EQ(answer->status, 200);
      const auto [home, is_new] = homes.emplace(session, RunningHost::pid_of(*answer));
      EXPECT_EQ(home->second, RunningHost::pid_of(*answer)) << session << " stays where it is warm";
    }
  }
  EXPECT_NE(homes["one"], homes["two"]) << "one connection, two workers";
  EXPECT_TRUE(eventually([&] { return host.counters().returns == 6; }));
  EXPECT_EQ(host.counters().affinity_hits, 4U);
  EXPECT_EQ(host.counters().affinity_misses, 0U);
  EXPECT_TRUE(eventually([&] { return host.load().open == 0; })) << "the idle connection is the supervisor's";
}

TEST(ScopeRequest, PipelinedRequestsAreNeverLost) {
  HostOptions options = RunningHost::options(2, 2);
  options.scope = Scope::request;
  RunningHost host(std::move(options));
  for (int round = 0; round < 20; ++round) {
    Client client(host.port());
    std::string requests;
    for (int i = 0; i < 5; ++i) requests += turn_request("r" + std::to_string(i));
    // Split in the middle of a request: the first part's last request completes after others were answered.
    const std::size_t at = requests.size() / 5 * static_cast<std::size_t>(round % 5) + static_cast<std::size_t>(round);
    ASSERT_TRUE(client.send(requests.substr(0, at)));
    ASSERT_TRUE(client.send(requests.substr(at)));
    for (int i = 0; i < 5; ++i) {
      const auto answer = client.read_answer();
      ASSERT_TRUE(answer) << i;
      ASSERT_EQ(answer->status, 200);
      EXPECT_THAT(answer->body, HasSubstr("\nr" + std::to_string(i)));
    }
  }
}

TEST(Sticky, ASessionsConnectionsGoToTheSameWorkerUntilItDies) {
  HostOptions options = RunningHost::options(2, 4);
  options.policy = Policy::sticky_by_session;
  RunningHost host(std::move(options));
  const auto turn_of = [&] { return ask(host.port(), turn_request("x", "x-sh-session-ID:  s-9 \r\n")); };
  const auto first = turn_of();
  ASSERT_TRUE(first);
  const int home = RunningHost::pid_of(*first);
  for (int i = 0; i < 6; ++i) {
    const auto answer = turn_of();
    ASSERT_TRUE(answer);
    EXPECT_EQ(RunningHost::pid_of(*answer), home);
  }
  EXPECT_EQ(host.counters().affinity_hits, 6U);
  ASSERT_EQ(::kill(home, SIGKILL), 0);
  ASSERT_TRUE(eventually([&] { return !host.ready_pids().contains(home); }));
  const auto moved = turn_of();
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->status, 200);
  const auto again = turn_of();
  ASSERT_TRUE(again);
  EXPECT_EQ(RunningHost::pid_of(*again), RunningHost::pid_of(*moved));
  EXPECT_EQ(host.counters().affinity_misses, 1U);
}

TEST(Drain, RunningTurnsEndIdleConnectionsCloseAndTheHostLeaves) {
  RunningHost host(2, 4);
  Client idle(host.port());
  ASSERT_TRUE(ask_on(idle, get_request("/health")));
  Client nothing_sent(host.port());
  Client streaming(host.port());
  ASSERT_TRUE(streaming.send(turn_request("", "X-Stream: 50\r\nX-Wait-Ms: 10\r\n")));
  ASSERT_TRUE(streaming.read_until("data: 0"));
  ASSERT_TRUE(eventually([&] { return host.counters().accepted == 3; }));

  host.supervisor->request_drain();
  EXPECT_TRUE(idle.read_to_end());
  EXPECT_EQ(*nothing_sent.read_to_end(), "");
  EXPECT_TRUE(eventually([&] { return host.view().draining(); }));
  EXPECT_TRUE(streaming.read_until("event: done"));
  EXPECT_TRUE(streaming.read_to_end());
  EXPECT_THAT(streaming.buffered(), HasSubstr("data: 49"));
  EXPECT_TRUE(eventually([&] { return host.ended.load(); }));
  EXPECT_EQ(host.exit_code, 0);
  EXPECT_FALSE(Client(host.port()).connected());
}

TEST(Drain, ASecondSignalEndsAtOnce) {
  RunningHost host(1, 1);
  Client streaming(host.port());
  ASSERT_TRUE(streaming.send(turn_request("", "X-Stream: 100000\r\nX-Wait-Ms: 10\r\n")));
  ASSERT_TRUE(streaming.read_until("data: 0"));
  host.supervisor->request_drain();
  host.supervisor->request_drain();
  EXPECT_TRUE(eventually([&] { return host.ended.load(); }));
}

TEST(Drain, AWorkerThatIsToldToLeaveIsReplaced) {
  RunningHost host(2, 4);
  const int leaving = *host.ready_pids().begin();
  ASSERT_EQ(::kill(leaving, SIGTERM), 0);
  for (int i = 0; i < 20; ++i) {
    const auto answer = ask(host.port(), turn_request());
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 200);
  }
  EXPECT_TRUE(eventually([&] { return host.ready_pids().size() == 2 && !host.ready_pids().contains(leaving); }));
}

TEST(Reload, NewWorkersTakeOverAndNoConnectionIsRefused) {
  RunningHost host(2, 16);
  Client streaming(host.port());
  ASSERT_TRUE(streaming.send(turn_request("", "X-Stream: 60\r\nX-Wait-Ms: 5\r\n")));
  ASSERT_TRUE(streaming.read_until("data: 0"));
  std::atomic<bool> stop{false};
  std::atomic<int> bad{0};
  std::thread load([&] {
    while (!stop) {
      const auto answer = ask(host.port(), turn_request());
      if (!answer || answer->status != 200) ++bad;
    }
  });
  for (int i = 0; i < 3; ++i) {
    const std::set<int> old = host.ready_pids();
    host.supervisor->request_reload();
    EXPECT_TRUE(eventually([&] {
      const std::set<int> now = host.ready_pids();
      return now.size() == 2 && std::ranges::none_of(now, [&](int pid) { return old.contains(pid); });
    }));
  }
  stop = true;
  load.join();
  EXPECT_EQ(bad, 0);
  EXPECT_TRUE(streaming.read_until("event: done")) << "an old worker finishes its turn";
  EXPECT_EQ(host.counters().restarts, 0U);
}

TEST(Start, WorkersThatRefuseTheirConfigurationEndTheHost) {
  HostOptions options = RunningHost::options(2, 1);
  options.worker_environment = {"TOY_EXIT=78"};
  auto supervisor = Supervisor::create(std::move(options));
  ASSERT_TRUE(supervisor);
  EXPECT_EQ((*supervisor)->run(), 78);
}

TEST(Start, AnExecutableThatIsNotThereIsTriedAgain) {
  HostOptions options = RunningHost::options(1, 1);
  options.worker_command = {"/nonexistent/roost"};
  auto supervisor = Supervisor::create(std::move(options));
  ASSERT_TRUE(supervisor);
  std::thread thread([&] { EXPECT_EQ((*supervisor)->run(), 0); });
  EXPECT_TRUE(eventually([&] { return (*supervisor)->view().counters.restarts >= 3; }));
  (*supervisor)->request_drain();
  thread.join();
}

TEST(Start, APortInUseIsNamedWithTheWayOut) {
  auto first = Supervisor::create(RunningHost::options(1, 1));
  ASSERT_TRUE(first);
  HostOptions options = RunningHost::options(1, 1);
  options.port = (*first)->port();
  const auto second = Supervisor::create(std::move(options));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::bad_config);
  EXPECT_THAT(second.error().message, HasSubstr(std::to_string((*first)->port())));
  EXPECT_THAT(second.error().message, HasSubstr("--port"));
}

}  // namespace
}  // namespace roost::host
