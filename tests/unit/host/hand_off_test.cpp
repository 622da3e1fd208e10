// Client -> supervisor -> worker, with real processes.
#include <gmock/gmock.h>

#include <filesystem>

#include "running_host.h"

namespace roost::host {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

std::size_t open_descriptors(const std::string& process) {
  std::size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/" + process + "/fd")) ++n;
  return n;
}

TEST(HandOff, AWorkerAnswersARequestThatTheSupervisorAccepted) {
  RunningHost host(2, 4);
  const auto answer = ask(host.port(), turn_request("hello"));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_TRUE(host.ready_pids().contains(RunningHost::pid_of(*answer)));
  EXPECT_THAT(answer->body, HasSubstr("\nhello"));
  EXPECT_TRUE(eventually([&] { return host.counters().handoffs == 1; }));
  EXPECT_TRUE(host.in_flight_becomes(0));
}

TEST(HandOff, ARequestSplitAtAnyByteArrivesIntact) {
  RunningHost host(2, 8);
  const std::string request = turn_request("0123456789", "X-SH-Session-Id: s-1\r\n");
  for (std::size_t at = 1; at < request.size(); ++at) {
    Client client(host.port());
    ASSERT_TRUE(client.send(request.substr(0, at)));
    std::this_thread::sleep_for(milliseconds(1));  // lets the first part be looked at alone; right either way
    ASSERT_TRUE(client.send(request.substr(at)));
    const auto answer = client.read_answer();
    ASSERT_TRUE(answer) << "split at " << at;
    EXPECT_EQ(answer->status, 200) << "split at " << at;
    EXPECT_EQ(answer->body.substr(answer->body.find('\n') + 1), "0123456789") << "split at " << at;
  }
  EXPECT_EQ(host.counters().head_truncations, 0U);
}

TEST(HandOff, AtSaturationATurnIsRefusedAndAHealthProbeIsAnswered) {
  RunningHost host(2, 1);
  Client first(host.port());
  Client second(host.port());
  for (Client* client : {&first, &second}) {
    ASSERT_TRUE(client->send(turn_request("", "X-Stream: 1000\r\nX-Wait-Ms: 20\r\n")));
    ASSERT_TRUE(client->read_until("data: 0"));
  }
  ASSERT_TRUE(host.in_flight_becomes(2));

  Client refused(host.port());
  ASSERT_TRUE(refused.send(turn_request(std::string(10'000, 'x'))));
  const auto answer = refused.read_to_end();
  ASSERT_TRUE(answer);
  EXPECT_EQ(
      *answer,
      "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n"
      "Content-Length: 22\r\n\r\n{\"error\":\"overloaded\"}");

  for (int i = 0; i < 20; ++i) {
    const auto health = ask(host.port(), get_request("/health"));
    ASSERT_TRUE(health);
    EXPECT_EQ(health->body, "ok");
  }
  EXPECT_EQ(host.counters().refusals, 1U);
  const auto records = host.view().refusals.list();
  ASSERT_EQ(records.size(), 1U);
  ASSERT_EQ(records[0].workers.size(), 2U);
  EXPECT_EQ(records[0].turns_per_worker, 1U);
  for (const RefusedWorker& w : records[0].workers) {
    EXPECT_EQ(w.in_flight + w.reserved, 1);
    EXPECT_TRUE(w.next_known);
  }
}

TEST(HandOff, ATurnWhoseClientLeavesGivesItsPlaceBack) {
  RunningHost host(1, 1);
  {
    Client client(host.port());
    ASSERT_TRUE(client.send(turn_request("", "X-Wait-Ms: 60000\r\n")));
    ASSERT_TRUE(host.in_flight_becomes(1));
  }
  EXPECT_TRUE(host.in_flight_becomes(0));
}

TEST(HandOff, AClientThatLeavesBeforeItsTurnIsReadGivesItsPlaceBack) {
  RunningHost host(1, 2);
  for (int i = 0; i < 50; ++i) {
    Client client(host.port());
    ASSERT_TRUE(client.send("POST /turn HTTP/1.1\r\nHost: t\r\nContent-Length: 100\r\n\r\nnot all of it"));
  }
  EXPECT_TRUE(eventually([&] { return host.counters().handoffs + host.counters().refusals == 50; }));
  EXPECT_TRUE(host.in_flight_becomes(0));
}

TEST(HandOff, AKilledWorkerIsStartedAgainAndOthersConnectionsLiveOn) {
  RunningHost host(2, 4);
  Client doomed(host.port());
  Client other(host.port());
  ASSERT_TRUE(doomed.send(turn_request("", "X-Stream: 100000\r\nX-Wait-Ms: 5\r\n")));
  ASSERT_TRUE(doomed.read_until("data: 0"));
  ASSERT_TRUE(other.send(turn_request("", "X-Stream: 50\r\nX-Wait-Ms: 5\r\n")));
  ASSERT_TRUE(other.read_until("data: 0"));
  int victim = 0;
  for (const WorkerView& w : host.view().workers()) {
    if (w.id == 1) victim = w.pid;
  }
  // The first turn went to the first worker: equal load, idle longest.
  ASSERT_EQ(::kill(victim, SIGKILL), 0);
  EXPECT_TRUE(doomed.read_to_end()) << "its client sees the end at once";
  EXPECT_TRUE(other.read_until("event: done"));
  const auto answer = ask(host.port(), turn_request());
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_TRUE(eventually([&] { return host.view().ready_workers() == 2; }));
  EXPECT_FALSE(host.ready_pids().contains(victim));
  EXPECT_EQ(host.counters().restarts, 1U);
}

TEST(HandOff, UnclaimedConnectionsOfAStoppedWorkerAreAnsweredByAnother) {
  RunningHost host(2, 8);
  const int stopped = *host.ready_pids().begin();
  ASSERT_EQ(::kill(stopped, SIGSTOP), 0);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<Client>(host.port()));
    ASSERT_TRUE(clients.back()->send(turn_request("n" + std::to_string(i))));
  }
  for (int i = 0; i < 8; ++i) {
    const auto answer = clients[static_cast<std::size_t>(i)]->read_answer();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 200);
    EXPECT_NE(RunningHost::pid_of(*answer), stopped);
    EXPECT_THAT(answer->body, HasSubstr("\nn" + std::to_string(i)));
  }
  EXPECT_GE(host.counters().handoff_retries, 1U);
  EXPECT_EQ(host.counters().handoff_failures, 0U);

  // It wakes up to sockets that others have served: it must not read from them.
  ASSERT_EQ(::kill(stopped, SIGCONT), 0);
  for (int i = 0; i < 8; ++i) {
    Client& client = *clients[static_cast<std::size_t>(i)];
    ASSERT_TRUE(client.send(turn_request("again")));
    const auto answer = client.read_answer();
    ASSERT_TRUE(answer);
    EXPECT_THAT(answer->body, HasSubstr("\nagain"));
    EXPECT_TRUE(client.buffered().empty());
  }
  EXPECT_TRUE(eventually([&] {
    const auto answer = ask(host.port(), turn_request());
    return answer && RunningHost::pid_of(*answer) == stopped;
  })) << "it gets connections again";
}

TEST(HandOff, WithNoWorkerLeftToTryAConnectionIsRefusedNotDropped) {
  HostOptions options = RunningHost::options(1, 4);
  options.claim_timeout = milliseconds(100);
  RunningHost host(std::move(options));
  const int pid = *host.ready_pids().begin();
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  const auto answer = ask(host.port(), turn_request());
  ::kill(pid, SIGCONT);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 429);
  EXPECT_EQ(host.counters().handoff_failures, 1U);
  EXPECT_TRUE(host.in_flight_becomes(0));
}

TEST(HandOff, FullChannelsPauseAcceptingAndNobodyIsLost) {
  HostOptions options = RunningHost::options(1, 2000);
  options.claim_timeout = std::chrono::seconds(60);
  RunningHost host(std::move(options));
  const int pid = *host.ready_pids().begin();
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 600; ++i) {
    clients.push_back(std::make_unique<Client>(host.port()));
    ASSERT_TRUE(clients.back()->connected());
    ASSERT_TRUE(clients.back()->send(turn_request(std::to_string(i))));
  }
  ASSERT_TRUE(eventually([&] { return host.load().reserved > 100; }));
  ASSERT_EQ(::kill(pid, SIGCONT), 0);
  for (int i = 0; i < 600; ++i) {
    const auto answer = clients[static_cast<std::size_t>(i)]->read_answer();
    ASSERT_TRUE(answer) << i;
    EXPECT_EQ(answer->status, 200);
    EXPECT_THAT(answer->body, HasSubstr("\n" + std::to_string(i)));
  }
  EXPECT_EQ(host.counters().refusals, 0U);
}

TEST(HandOff, DescriptorsStayConstantOverManyHandOffs) {
  RunningHost host(2, 64);
  std::uint64_t asked = 0;
  const auto run = [&](int n) {
    asked += static_cast<std::uint64_t>(n);
    for (int i = 0; i < n; ++i) {
      const auto answer = ask(host.port(), i % 2 == 0 ? turn_request() : get_request("/health"));
      ASSERT_TRUE(answer);
      ASSERT_EQ(answer->status, 200);
    }
    // The last duplicates are closed when the supervisor has seen their claims.
    ASSERT_TRUE(eventually([&] { return host.load().open == 0 && host.counters().handoffs == asked; }));
  };
  run(20);
  std::vector<std::string> processes{"self"};
  for (const int pid : host.ready_pids()) processes.push_back(std::to_string(pid));
  std::vector<std::size_t> before;
  for (const auto& process : processes) before.push_back(open_descriptors(process));
  run(2000);
  for (std::size_t i = 0; i < processes.size(); ++i) {
    EXPECT_TRUE(eventually([&] { return open_descriptors(processes[i]) == before[i]; }))
        << processes[i] << ": " << before[i] << " became " << open_descriptors(processes[i]);
  }
}

TEST(HandOff, ASlowHeadHoldsNoPlace) {
  HostOptions options = RunningHost::options(1, 1);
  options.head_timeout = milliseconds(50);
  RunningHost host(std::move(options));
  std::vector<std::unique_ptr<Client>> slow;
  const std::string request = turn_request("late");
  for (int i = 0; i < 4; ++i) {
    slow.push_back(std::make_unique<Client>(host.port()));
    ASSERT_TRUE(slow.back()->send(request.substr(0, 10)));
  }
  ASSERT_TRUE(eventually([&] { return host.counters().head_truncations == 4; }));
  const auto answer = ask(host.port(), turn_request("normal"));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  // All complete at once on a worker with one place: they wait for it, one after the other.
  for (auto& client : slow) ASSERT_TRUE(client->send(request.substr(10)));
  for (auto& client : slow) {
    const auto late = client->read_answer();
    ASSERT_TRUE(late);
    EXPECT_EQ(late->status, 200);
    EXPECT_THAT(late->body, HasSubstr("\nlate"));
  }
}

TEST(HandOff, AHeadOverTheLimitGetsTheWorkersAnswer) {
  RunningHost host(1, 1);
  const auto answer =
      ask(host.port(), "POST /turn HTTP/1.1\r\nHost: t\r\nX-Long: " + std::string(20'000, 'x') + "\r\n\r\n");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 431);
  EXPECT_EQ(host.counters().head_truncations, 1U);
  EXPECT_TRUE(host.in_flight_becomes(0));
}

TEST(HandOff, NotHttpIsRefusedByTheWorkerAndHoldsNothing) {
  RunningHost host(1, 1);
  const auto answer = ask(host.port(), "\x16\x03\x01 nonsense\r\n\r\n");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 400);
  EXPECT_TRUE(host.in_flight_becomes(0));
}

TEST(HandOff, MoreConnectionsThanTheBoundWaitUntilOneLeaves) {
  HostOptions options = RunningHost::options(1, 4);
  options.max_connections = 3;
  RunningHost host(std::move(options));
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 3; ++i) idle.push_back(std::make_unique<Client>(host.port()));
  ASSERT_TRUE(eventually([&] { return host.counters().accepted == 3; }));
  Client waiting(host.port());
  ASSERT_TRUE(waiting.send(turn_request()));
  EXPECT_EQ(host.counters().accepted, 3U);
  idle.pop_back();
  const auto answer = waiting.read_answer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
}

TEST(HandOff, ARefusedPeerThatNeverClosesIsLetGo) {
  HostOptions options = RunningHost::options(1, 1);
  options.linger = milliseconds(50);
  RunningHost host(std::move(options));
  Client busy(host.port());
  ASSERT_TRUE(busy.send(turn_request("", "X-Stream: 10000\r\nX-Wait-Ms: 20\r\n")));
  ASSERT_TRUE(busy.read_until("data: 0"));
  ASSERT_TRUE(eventually([&] { return host.counters().handoffs == 1; }));
  const std::size_t before = open_descriptors("self");
  std::vector<std::unique_ptr<Client>> refused;
  for (int i = 0; i < 10; ++i) {
    refused.push_back(std::make_unique<Client>(host.port()));
    ASSERT_TRUE(refused.back()->send(turn_request()));
    const auto answer = refused.back()->read_answer();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 429);
  }
  EXPECT_TRUE(eventually([&] { return open_descriptors("self") == before + refused.size(); }));
}

}  // namespace
}  // namespace roost::host
