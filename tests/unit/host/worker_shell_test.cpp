// The worker's shell (agent/worker_process.h) with the test as its supervisor: what it does with claims, messages that
// are wrong, and a supervisor that is gone.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>

#include "client.h"
#include "handoff/channel.h"
#include "handoff/counter_page.h"
#include "handoff/inherit.h"
#include "host/listener.h"
#include "host/spawn.h"

namespace roost::host {
namespace {

using handoff::ClaimState;

class WorkerShell : public ::testing::Test {
 protected:
  void SetUp() override {
    auto ends = handoff::Channel::make();
    ASSERT_TRUE(ends);
    channel = handoff::Channel(std::move(ends->first));
    row = page.assign(1, 2);
    const handoff::Inheritance inheritance{kWorkerChannelFd, kWorkerPageFd, 1, row.generation(), 1};
    auto spawned = spawn_worker({TOY_WORKER}, inheritance.as_environment(), ends->second.get(), page.fd());
    ASSERT_TRUE(spawned);
    process = *std::move(spawned);
    ends->second.reset();
    const auto first = next_message();
    ASSERT_TRUE(first);
    ASSERT_TRUE(std::holds_alternative<handoff::Ready>(*first));
    EXPECT_EQ(std::get<handoff::Ready>(*first).pid, process.pid);
  }
  void TearDown() override {
    if (process.pid > 0) {
      ::kill(process.pid, SIGKILL);
      reap(process);
    }
  }

  std::optional<handoff::Message> next_message() {
    handoff::Received got;
    eventually([&] {
      got = channel.receive();
      return got.status != handoff::Received::Status::empty;
    });
    return std::move(got.message);
  }
  // A connected client and the server's end of it.
  std::pair<std::unique_ptr<Client>, UniqueFd> connection() {
    auto client = std::make_unique<Client>(listener.port);
    UniqueFd accepted;
    eventually([&] {
      accepted.reset(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      return static_cast<bool>(accepted);
    });
    return {std::move(client), std::move(accepted)};
  }
  void give(int socket, std::uint64_t ticket) {
    page.open_claim(0, ticket);
    ASSERT_EQ(channel.send(handoff::Conn{0, ticket, false, false}, socket), handoff::SendStatus::sent);
  }
  bool claim_becomes(std::uint64_t ticket, ClaimState state) {
    return eventually([&] { return page.claim_state(0, ticket) == state; });
  }

  handoff::CounterPage page = *handoff::CounterPage::create(2, 4);
  handoff::Row row;
  handoff::Channel channel;
  Spawned process;
  Listener listener = *listen_on("127.0.0.1", 0);
};

TEST_F(WorkerShell, ServesASocketAfterClaimingIt) {
  auto [client, socket] = connection();
  give(socket.get(), 1);
  ASSERT_TRUE(claim_becomes(1, ClaimState::claimed));
  socket.reset();
  ASSERT_TRUE(client->send(turn_request("by hand")));
  const auto answer = client->read_answer();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, std::to_string(process.pid) + "\nby hand");
  EXPECT_EQ(row.load().open, 1U);
  client->close();
  EXPECT_TRUE(eventually([&] { return row.load() == handoff::Load{row.generation(), 0, 0, 0}; }));
}

TEST_F(WorkerShell, ReadsNothingFromASocketWhoseClaimWasTakenBack) {
  auto [client, socket] = connection();
  ASSERT_TRUE(client->send("untouched"));
  ASSERT_EQ(::kill(process.pid, SIGSTOP), 0);
  give(socket.get(), 1);
  ASSERT_TRUE(page.take_back(0, 1));
  ASSERT_EQ(::kill(process.pid, SIGCONT), 0);
  // A later one has been served: the first is behind it.
  auto [other_client, other_socket] = connection();
  give(other_socket.get(), 2);
  ASSERT_TRUE(claim_becomes(2, ClaimState::claimed));
  char bytes[32] = {};
  EXPECT_EQ(::recv(socket.get(), bytes, sizeof bytes, 0), 9);
  EXPECT_STREQ(bytes, "untouched");
}

TEST_F(WorkerShell, AConnWithoutItsSocketIsDeclinedAndGarbageIgnored) {
  page.open_claim(0, 1);
  ASSERT_EQ(channel.send(handoff::Conn{0, 1, false, false}), handoff::SendStatus::sent);
  EXPECT_TRUE(claim_becomes(1, ClaimState::declined));
  ASSERT_EQ(channel.send(handoff::Conn{4'000'000'000U, 9, true, false}), handoff::SendStatus::sent);
  ASSERT_EQ(channel.send(handoff::Ready{1}), handoff::SendStatus::sent);  // not a supervisor's to send
  ASSERT_EQ(::send(channel.fd(), "garbage", 7, 0), 7);
  UniqueFd not_a_socket(::dup(0));
  give(not_a_socket.get(), 2);
  EXPECT_TRUE(claim_becomes(2, ClaimState::declined));
  auto [client, socket] = connection();
  give(socket.get(), 3);
  EXPECT_TRUE(claim_becomes(3, ClaimState::claimed)) << "it works on";
}

TEST_F(WorkerShell, WhenTheSupervisorIsGoneTurnsFinishThenItLeaves) {
  auto [client, socket] = connection();
  ASSERT_TRUE(client->send(turn_request("", "X-Stream: 30\r\nX-Wait-Ms: 10\r\n")));
  give(socket.get(), 1);
  ASSERT_TRUE(client->read_until("data: 0"));
  socket.reset();
  channel.close();
  EXPECT_TRUE(client->read_until("event: done"));
  EXPECT_TRUE(client->read_to_end());
  const Exit exit = reap(process);
  process = {};
  EXPECT_EQ(exit.signal, 0);
  EXPECT_EQ(exit.code, 0);
}

TEST_F(WorkerShell, GivesBackAConnectionWhoseNextTurnHasNoPlaceUnread) {
  auto [client, socket] = connection();
  give(socket.get(), 1);
  ASSERT_TRUE(claim_becomes(1, ClaimState::claimed));
  socket.reset();
  ASSERT_TRUE(client->send(get_request("/health")));
  ASSERT_TRUE(client->read_answer());
  ASSERT_TRUE(row.try_reserve() && row.try_reserve());  // S is 2
  const std::string request = turn_request("moved");
  ASSERT_TRUE(client->send(request));
  UniqueFd back;
  ASSERT_TRUE(eventually([&] {
    handoff::Received got = channel.receive();
    if (got.message && std::holds_alternative<handoff::Returned>(*got.message)) back = std::move(got.socket);
    return static_cast<bool>(back);
  }));
  std::string bytes(request.size() + 10, 0);
  EXPECT_EQ(::recv(back.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(request.size()));
  EXPECT_EQ(bytes.substr(0, request.size()), request);
  EXPECT_TRUE(eventually([&] { return row.load().open == 0; }));
}

}  // namespace
}  // namespace roost::host
