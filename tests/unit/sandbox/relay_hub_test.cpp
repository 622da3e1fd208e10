// The relay's bookkeeping, without gRPC and with a clock that stands still.
#include "sandbox/relay_hub.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/limits.h"
#include "sandbox/egress.h"

namespace roost::sandbox::test {
namespace {

struct Link final : SandboxLink {
  bool full = false;
  std::string closed;
  std::vector<wire::ServerFrame> frames;
  bool offer(wire::ServerFrame frame) override {
    if (!full) frames.push_back(std::move(frame));
    return !full;
  }
  void force(wire::ServerFrame frame) override { frames.push_back(std::move(frame)); }
  void close(std::string reason) override { closed = std::move(reason); }
};

struct Call final : ExecCall {
  explicit Call(std::uint64_t req_id, std::string from = "peer") : id(req_id), from_peer(std::move(from)) {}
  std::uint64_t id;
  std::string from_peer;
  bool slow = false;
  std::string out;
  int ends = 0;
  std::uint64_t seen_id = 0;
  std::string failed;
  std::uint64_t client_req_id() const override { return id; }
  std::string_view peer() const override { return from_peer; }
  bool chunk(wire::Chunk chunk) override {
    if (slow) return false;
    out += chunk.data();
    seen_id = chunk.req_id();
    return true;
  }
  void end(wire::End end) override {
    ++ends;
    seen_id = end.req_id();
  }
  void error(wire::ExecError error) override { failed = error.message(); }
  void refuse(Refusal, std::string message) override { failed = std::move(message); }
};

class HubTest : public ::testing::Test {
 protected:
  std::shared_ptr<Link> attach(const std::string& id) {
    auto link = std::make_shared<Link>();
    wire::Hello hello;
    hello.set_sandbox_id(id);
    EXPECT_TRUE(hub.attach(link, hello).ok());
    return link;
  }
  std::shared_ptr<Call> exec(const std::string& sandbox, std::uint64_t req_id, const std::string& peer = "peer") {
    auto call = std::make_shared<Call>(req_id, peer);
    wire::Exec request;
    request.set_req_id(req_id);
    request.set_command("true");
    hub.exec(call, sandbox, request);
    return call;
  }
  void chunk(const std::shared_ptr<Link>& link, std::uint64_t wire_id, const std::string& data) {
    wire::WorkerFrame frame;
    frame.mutable_chunk()->set_req_id(wire_id);
    frame.mutable_chunk()->set_data(data);
    hub.frame(link.get(), frame);
  }
  void end(const std::shared_ptr<Link>& link, std::uint64_t wire_id) {
    wire::WorkerFrame frame;
    frame.mutable_end()->set_req_id(wire_id);
    hub.frame(link.get(), frame);
  }
  static std::vector<std::uint64_t> aborts(const std::shared_ptr<Link>& link) {
    std::vector<std::uint64_t> ids;
    for (const auto& f : link->frames) {
      if (f.has_abort()) ids.push_back(f.abort().req_id());
    }
    return ids;
  }

  ManualClock clock;
  int present = 0;
  int gone = 0;
  RelayHub hub{clock, {[this](const AttachedSandbox&) { ++present; }, [this](const AttachedSandbox&) { ++gone; }}};
};

TEST_F(HubTest, TheSameRequestIdOfTwoClientsGetsTwoWireIds) {
  const auto link = attach("box");
  const auto a = exec("box", 1);
  const auto b = exec("box", 1);
  const auto id_a = link->frames[0].exec().req_id();
  const auto id_b = link->frames[1].exec().req_id();
  ASSERT_NE(id_a, id_b);
  chunk(link, id_b, "for b");
  chunk(link, id_a, "for a");
  EXPECT_EQ(a->out, "for a");
  EXPECT_EQ(b->out, "for b");
  EXPECT_EQ(b->seen_id, 1U) << "the client sees its own id";
  end(link, id_a);
  EXPECT_EQ(a->ends, 1);
  EXPECT_EQ(b->ends, 0);
  EXPECT_EQ(hub.calls_in_flight(), 1U);
}

TEST_F(HubTest, AFrameOfAnotherSandboxReachesNobody) {
  const auto box = attach("box");
  const auto evil = attach("evil");
  const auto call = exec("box", 1);
  const auto wire_id = box->frames[0].exec().req_id();
  chunk(evil, wire_id, "forged");
  end(evil, wire_id);
  EXPECT_EQ(call->out, "");
  EXPECT_EQ(call->ends, 0);
}

TEST_F(HubTest, ALostSandboxFailsAllItsCallsAndOnlyThem) {
  const auto box = attach("box");
  attach("other");
  const auto a = exec("box", 1);
  const auto b = exec("box", 2);
  const auto c = exec("other", 1);
  hub.detach(box.get());
  EXPECT_EQ(a->failed, "worker disconnected");
  EXPECT_EQ(b->failed, "worker disconnected");
  EXPECT_EQ(c->failed, "");
  EXPECT_EQ(gone, 1);
  hub.detach(box.get());
  EXPECT_EQ(gone, 1);
}

TEST_F(HubTest, ARefusedSecondStreamDoesNotDetachTheFirst) {
  const auto first = attach("box");
  const auto second = std::make_shared<Link>();
  wire::Hello hello;
  hello.set_sandbox_id("box");
  const auto refused = hub.attach(second, hello);
  ASSERT_FALSE(refused.ok());
  hub.detach(second.get());
  EXPECT_EQ(exec("box", 1)->failed, "");
  EXPECT_EQ(first->frames.size(), 1U);
}

TEST_F(HubTest, ASlowReaderIsCutOffAndItsCommandAborted) {
  const auto link = attach("box");
  const auto call = exec("box", 1);
  call->slow = true;
  const auto wire_id = link->frames[0].exec().req_id();
  chunk(link, wire_id, "x");
  EXPECT_NE(call->failed.find("slower"), std::string::npos);
  EXPECT_EQ(aborts(link), std::vector<std::uint64_t>{wire_id});
  EXPECT_EQ(hub.calls_in_flight(), 0U);
}

TEST_F(HubTest, AClientThatLeavesAbortsItsCommandOnce) {
  const auto link = attach("box");
  const auto call = exec("box", 1);
  hub.drop_call(call.get());
  hub.drop_call(call.get());
  EXPECT_EQ(aborts(link).size(), 1U);
}

TEST_F(HubTest, AFullStreamRefusesACommandButTakesAborts) {
  const auto link = attach("box");
  const auto running = exec("box", 1);
  link->full = true;
  EXPECT_NE(exec("box", 2)->failed.find("busy"), std::string::npos);
  ASSERT_TRUE(hub.abort("box", 1, "peer").ok());
  EXPECT_EQ(aborts(link).size(), 1U);
}

TEST_F(HubTest, AnAbortOfASharedIdGoesToTheAskersCall) {
  const auto link = attach("box");
  exec("box", 1, "alice");
  exec("box", 1, "bob");
  ASSERT_TRUE(hub.abort("box", 1, "bob").ok());
  EXPECT_EQ(aborts(link), std::vector<std::uint64_t>{link->frames[1].exec().req_id()});
  EXPECT_FALSE(hub.abort("box", 1, "carol").ok()) << "whose command it is cannot be told";
  EXPECT_FALSE(hub.abort("box", 9, "bob").ok());
  EXPECT_FALSE(hub.abort("nobox", 1, "bob").ok());
}

TEST_F(HubTest, ARequestThatOnlyFitsBeforeItIsRewrittenIsRefused) {
  attach("box");
  auto call = std::make_shared<Call>(1);
  wire::Exec request;
  request.set_req_id(1);
  request.set_stdin(std::string(limits::kGrpcMessageBytes - 8, 'x'));
  hub.exec(call, "box", std::move(request));
  EXPECT_NE(call->failed.find("bytes"), std::string::npos);
}

TEST_F(HubTest, ASilentSandboxIsClosedAfter45Seconds) {
  const auto link = attach("box");
  clock.advance(std::chrono::seconds(45));
  hub.close_silent();
  EXPECT_EQ(link->closed, "");
  wire::WorkerFrame beat;
  beat.mutable_heartbeat();
  hub.frame(link.get(), beat);
  EXPECT_EQ(present, 2);
  clock.advance(std::chrono::seconds(45));
  hub.close_silent();
  EXPECT_EQ(link->closed, "");
  clock.advance(std::chrono::milliseconds(1));
  hub.close_silent();
  EXPECT_NE(link->closed, "");
}

TEST(EgressTest, OneWriteIsInFlightAndTheBoundHoldsForWhatMayBeRefused) {
  Egress<wire::ExecEvent> egress(100);
  const auto event = [](std::size_t size) {
    wire::ExecEvent e;
    e.mutable_chunk()->set_data(std::string(size, 'x'));
    return e;
  };
  EXPECT_EQ(egress.next(), nullptr);
  EXPECT_TRUE(egress.offer(event(60)));
  EXPECT_FALSE(egress.offer(event(60)));
  wire::ExecEvent end;
  end.mutable_end()->set_exit_code(5);
  egress.force(event(200));
  egress.force(end);
  EXPECT_NE(egress.next(), nullptr);
  EXPECT_EQ(egress.next(), nullptr) << "a write is in flight";
  egress.written();
  EXPECT_EQ(egress.next()->chunk().data().size(), 200U);
  egress.written();
  EXPECT_EQ(egress.next()->end().exit_code(), 5);
  egress.written();
  EXPECT_TRUE(egress.empty());
  EXPECT_EQ(egress.bytes(), 0U);
}

}  // namespace
}  // namespace roost::sandbox::test
