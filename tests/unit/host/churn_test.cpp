// Many clients of every kind at once: no place is lost, given twice or refused without cause; and the admin port's
// account.
#include <gmock/gmock.h>

#include <random>

#include "host/admin_server.h"
#include "host/metrics.h"
#include "running_host.h"

namespace roost::host {
namespace {

using ::testing::HasSubstr;

struct Tally {
  std::atomic<int> served{0}, refused{0}, broken{0};
};

void one_client(std::uint16_t port, unsigned seed, int requests, Tally& tally) {
  std::mt19937 random(seed);
  for (int i = 0; i < requests; ++i) {
    Client client(port);
    const auto count = [&](const std::optional<Answer>& answer) {
      if (!answer)
        ++tally.broken;
      else if (answer->status == 200)
        ++tally.served;
      else if (answer->status == 429)
        ++tally.refused;
      else
        ++tally.broken;
      return answer && answer->status == 200;
    };
    switch (random() % 5) {
      case 0:
        client.send(turn_request("", "X-Wait-Ms: 50\r\n"));
        break;  // and leaves
      case 1:
        client.send("POST /turn HTTP/1.1\r\nHost:");
        break;  // never completes
      case 2:
        client.send(get_request("/health"));
        count(client.read_answer());
        break;
      case 3:
        client.send(turn_request("x", "X-Wait-Ms: 1\r\n"));
        count(client.read_answer());
        break;
      default:
        for (int k = 0; k < 3; ++k) {
          if (!client.send(turn_request("kept")) || !count(client.read_answer())) break;
        }
    }
  }
}

void churn(HostOptions options) {
  RunningHost host(std::move(options));
  Tally tally;
  std::vector<std::thread> clients;
  for (unsigned c = 0; c < 6; ++c) clients.emplace_back([&, c] { one_client(host.port(), c + 1, 60, tally); });
  for (auto& client : clients) client.join();
  EXPECT_EQ(tally.broken, 0);
  EXPECT_GT(tally.served, 0);
  EXPECT_TRUE(host.in_flight_becomes(0));
  EXPECT_TRUE(eventually([&] { return host.load().open == 0; }));
  EXPECT_EQ(host.counters().spurious_refusals, 0U);
  EXPECT_EQ(host.view().over_admissions(), 0U);
  // A refused client that had left already was not counted by it.
  EXPECT_GE(host.counters().refusals, static_cast<std::uint64_t>(tally.refused));
  EXPECT_EQ(host.view().refusals.list().size(), host.counters().refusals);
}

TEST(Churn, CountsStayExactWithScopeConnection) {
  HostOptions options = RunningHost::options(2, 2);
  options.head_timeout = std::chrono::milliseconds(20);
  churn(std::move(options));
}

TEST(Churn, CountsStayExactWithScopeRequestAndStickySessions) {
  HostOptions options = RunningHost::options(2, 2);
  options.scope = Scope::request;
  options.policy = Policy::sticky_by_session;
  churn(std::move(options));
}

TEST(Admin, ShowsWhatTheHostDoesAndNullForWhatNobodyMeasured) {
  RunningHost host(2, 3);
  auto admin = AdminServer::start(host.view(), host.supervisor->options());
  ASSERT_TRUE(admin);
  const std::uint16_t port = (*admin)->port();
  Client busy(host.port());
  ASSERT_TRUE(busy.send(turn_request("", "X-Stream: 10000\r\nX-Wait-Ms: 20\r\n")));
  ASSERT_TRUE(busy.read_until("data: 0"));

  const auto metrics = [&] {
    const auto answer = ask(port, get_request("/metrics?format=json"));
    EXPECT_TRUE(answer);
    return json::parse(answer->body).as_object();
  };
  ASSERT_TRUE(eventually([&] { return !metrics()["workers"].at(0).at("rss_bytes").is_null(); }));
  const json::object m = metrics();
  ASSERT_EQ(m.at("workers").as_array().size(), 2U);
  std::int64_t in_flight = 0;
  for (const auto& w : m.at("workers").as_array()) {
    in_flight += w.at("inFlight").as_int64();
    EXPECT_TRUE(w.at("healthy").as_bool());
    EXPECT_GT(w.at("rss_bytes").as_int64(), 0);
    EXPECT_TRUE(w.at("resident_sessions").is_null());
    EXPECT_TRUE(w.at("affinity_hits").is_null());
  }
  EXPECT_EQ(in_flight, 1);
  for (const char* unmeasured : {"lease_saturation", "file_op_p95_ms", "sandbox_pool_size"}) {
    EXPECT_TRUE(m.at(unmeasured).is_null()) << unmeasured;
  }
  EXPECT_EQ(m.at("counters").at("over_admission").to_number<int>(), 0);

  EXPECT_THAT(ask(port, get_request("/metrics"))->body, HasSubstr("roost_host_handoffs_total 1\n"));
  EXPECT_EQ(ask(port, get_request("/healthz"))->status, 200);
  EXPECT_EQ(ask(port, get_request("/readyz"))->status, 200);
  EXPECT_EQ(ask(port, get_request("/refusals"))->body, R"({"refusals":[]})");
  EXPECT_THAT(ask(port, get_request("/config"))->body, HasSubstr("http_head_bytes"));
  EXPECT_EQ(ask(port, get_request("/nothing"))->status, 404);
  host.supervisor->request_drain();
  EXPECT_TRUE(eventually([&] { return ask(port, get_request("/readyz"))->status == 503; }));
}

// `roost worker --listen`: the same shell without a host.
TEST(Listen, AWorkerAloneKeepsToItsPlacesAndAnswersAsTheHostDoes) {
  const std::string command = std::string(TOY_WORKER) + " 127.0.0.1:0 1";
  std::unique_ptr<FILE, int (*)(FILE*)> toy(::popen(("exec " + command).c_str(), "r"), &::pclose);
  ASSERT_TRUE(toy);
  char line[32] = {};
  ASSERT_NE(std::fgets(line, sizeof line, toy.get()), nullptr);
  const auto port = static_cast<std::uint16_t>(std::atoi(line));
  const auto pid = ask(port, get_request("/pid"));
  ASSERT_TRUE(pid);
  Client busy(port);
  ASSERT_TRUE(busy.send(turn_request("", "X-Stream: 40\r\nX-Wait-Ms: 10\r\n")));
  ASSERT_TRUE(busy.read_until("data: 0"));
  EXPECT_EQ(ask(port, get_request("/health"))->status, 200);
  const auto refused = ask(port, turn_request());
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->status, 429);
  EXPECT_EQ(refused->body, "{\"error\":\"overloaded\"}");
  EXPECT_TRUE(refused->has_header("Retry-After: 1"));
  EXPECT_TRUE(refused->has_header("Connection: close"));
  ASSERT_EQ(::kill(std::atoi(pid->body.c_str()), SIGTERM), 0);
  EXPECT_TRUE(busy.read_until("event: done")) << "SIGTERM drains";
  EXPECT_EQ(::pclose(toy.release()), 0);
}

}  // namespace
}  // namespace roost::host
