// Commands through the whole path: client → relay → sandbox → bubblewrap, and back.
#include <fstream>

#include "core/limits.h"
#include "test_stack.h"

namespace roost::sandbox::test {
namespace {

using ExecTest = Stack;

TEST_F(ExecTest, OutputAndExitCodeComeBack) {
  start_sandbox("box");
  const auto done = exec("echo out; echo err >&2; exit 3");
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(done->out, "out\n");
  EXPECT_EQ(done->err, "err\n");
  EXPECT_EQ(done->exit_code, 3);
  EXPECT_FALSE(done->truncated);
}

TEST_F(ExecTest, OutputStreamsWhileTheCommandRuns) {
  start_sandbox("box");
  std::promise<void> first;
  bool seen = false;
  auto on_chunk = [&](ExecStream, std::string_view data) {
    if (!seen && data.find("first") != std::string_view::npos) {
      seen = true;
      first.set_value();
    }
  };
  // Ends only when somebody who has seen the first line says so.
  auto done =
      loop.launch(client->exec(spec("echo first; until [ -e go ]; do sleep 0.02; done; echo last"), nullptr, on_chunk));
  ASSERT_EQ(first.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  ASSERT_TRUE(exec("touch go").ok());
  const auto outcome = done.get();
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->out, "first\nlast\n");
}

TEST_F(ExecTest, StdinArrivesWholeAndIsClosed) {
  start_sandbox("box");
  auto large = spec("wc -c; sha256sum < /dev/null > /dev/null");
  large.stdin_bytes = std::string(10'700'000, 'x');
  const auto done = exec(large);
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(done->out, "10700000\n");
}

TEST_F(ExecTest, StdinThatNobodyReadsIsNoError) {
  start_sandbox("box");
  auto unread = spec("exec <&-; echo fine");
  unread.stdin_bytes = std::string(1'000'000, 'x');
  const auto done = exec(unread);
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(done->out, "fine\n");
}

TEST_F(ExecTest, ARequestOverTheMessageSizeIsRefusedAndOthersGoOn) {
  start_sandbox("box");
  auto other = exec_later(spec("until [ -e go ]; do sleep 0.02; done; echo alive"));
  auto large = spec("cat");
  large.stdin_bytes = std::string(limits::kGrpcMessageBytes + 1, 'x');
  const auto done = exec(large);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().kind, ErrorKind::sandbox_failed);
  // Fits the client's message by a few bytes; the relay's own may not be larger.
  large.stdin_bytes.resize(limits::kGrpcMessageBytes - 60);
  static_cast<void>(exec(large).ok());
  ASSERT_TRUE(exec("touch go").ok());
  EXPECT_EQ(other.get()->out, "alive\n");
}

TEST_F(ExecTest, ALongCommandRuns) {
  start_sandbox("box");
  const std::string text(300'000, 'y');
  const auto done = exec("x='" + text + "'; echo ${#x}; exit 5");
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(done->out, "300000\n");
  EXPECT_EQ(done->exit_code, 5);
}

TEST_F(ExecTest, OutputAtTheCapIsTruncatedAndTheProducerIsStopped) {
  start_sandbox("box");
  const auto done = exec("while true; do head -c 262144 /dev/zero; echo x >> grown; done");
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(done->out.size(), limits::kExecStreamBytes);
  EXPECT_TRUE(done->truncated);
  EXPECT_LT(done->exit_code, 0);
  // Dead, not merely unread.
  const auto size = read_text(file("grown")).size();
  ASSERT_TRUE(exec("true").ok());
  EXPECT_EQ(read_text(file("grown")).size(), size);
}

TEST_F(ExecTest, OutputOfExactlyTheCapIsTruncatedToo) {
  start_sandbox("box");
  const auto at = exec("head -c 8388608 /dev/zero >&2");
  ASSERT_TRUE(at.ok()) << at.error().message;
  EXPECT_EQ(at->err.size(), limits::kExecStreamBytes);
  EXPECT_TRUE(at->truncated);
  const auto below = exec("head -c 8388607 /dev/zero");
  ASSERT_TRUE(below.ok()) << below.error().message;
  EXPECT_EQ(below->out.size(), limits::kExecStreamBytes - 1);
  EXPECT_FALSE(below->truncated);
  EXPECT_EQ(below->exit_code, 0);
}

TEST_F(ExecTest, ATimeoutKillsTheGroupAndWhatLeftIt) {
  start_sandbox("box");
  auto slow = spec("setsid bash -c 'while true; do echo x >> ticks; sleep 0.01; done' & while true; do sleep 1; done");
  slow.timeout = std::chrono::seconds(2);
  const auto done = exec(slow);
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().kind, ErrorKind::timeout);
  EXPECT_NE(done.error().message.find("2 s"), std::string::npos);
  const auto ticks = read_text(file("ticks"));
  ASSERT_TRUE(exec("sleep 0.1").ok());
  EXPECT_EQ(read_text(file("ticks")), ticks) << "a grandchild survived";
}

TEST_F(ExecTest, WhatACommandLeavesInTheBackgroundEndsWithIt) {
  start_sandbox("box");
  const auto done = exec(
      "setsid bash -c 'while true; do echo x >> ticks; sleep 0.01; done' & until [ -s ticks ]; do sleep 0.01; done; "
      "echo left");
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(done->out, "left\n");
  const auto ticks = read_text(file("ticks"));
  ASSERT_TRUE(exec("sleep 0.1").ok());
  EXPECT_EQ(read_text(file("ticks")), ticks);
}

TEST_F(ExecTest, AnAbortKillsTheCommand) {
  start_sandbox("box");
  AbortSource abort;
  auto done = exec_later(spec("while true; do echo x >> ticks; sleep 0.01; done"), &abort);
  ASSERT_TRUE(eventually([&] { return !read_text(file("ticks")).empty(); }));
  loop.call([&] {
    abort.request("cancelled");
    return true;
  });
  const auto outcome = done.get();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::cancelled);
  // The kill follows the answer: wait for two looks that agree.
  EXPECT_TRUE(eventually([&] {
    const auto before = read_text(file("ticks"));
    EXPECT_TRUE(exec("sleep 0.1").ok());
    return read_text(file("ticks")) == before;
  }));
}

TEST_F(ExecTest, ALostSandboxFailsItsCallsAtOnce) {
  // A sandbox that takes the command and is gone.
  auto stub = wire::SandboxWorker::NewStub(make_channel(attach_address()));
  grpc::ClientContext context;
  context.AddMetadata("authorization", std::string("Bearer ") + kToken);
  const auto stream = stub->Attach(&context);
  wire::WorkerFrame hello;
  hello.mutable_hello()->set_sandbox_id("box");
  stream->Write(hello);
  stream->WaitForInitialMetadata();
  auto done = exec_later(spec("sleep 600"));
  wire::ServerFrame frame;
  ASSERT_TRUE(stream->Read(&frame));
  EXPECT_EQ(frame.exec().command(), "sleep 600");
  EXPECT_EQ(frame.exec().timeout_s(), 60U);
  context.TryCancel();
  const auto outcome = done.get();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().kind, ErrorKind::sandbox_failed);
  EXPECT_NE(outcome.error().message.find("worker disconnected"), std::string::npos) << outcome.error().message;
  static_cast<void>(stream->Finish());
}

TEST_F(ExecTest, AStoppedRelayFailsItsCalls) {
  start_sandbox("box");
  auto done = exec_later(spec("touch started; sleep 600"));
  ASSERT_TRUE(eventually([&] { return std::ifstream(file("started")).good(); }));
  stop_relay();
  EXPECT_FALSE(done.get().ok());
}

TEST_F(ExecTest, AStoppedSandboxFailsItsCallsOrEndsThem) {
  start_sandbox("box");
  auto done = exec_later(spec("touch started; sleep 600"));
  ASSERT_TRUE(eventually([&] { return std::ifstream(file("started")).good(); }));
  stop_sandbox("box");
  const auto outcome = done.get();
  if (outcome.ok()) {
    EXPECT_LT(outcome->exit_code, 0);
  }
  const auto later = exec("true");
  ASSERT_FALSE(later.ok());
  EXPECT_EQ(later.error().kind, ErrorKind::sandbox_failed);
}

TEST_F(ExecTest, OverTheSlotsAndTheQueueIsBusy) {
  auto options = sandbox_options("box");
  options.exec.slots = 1;
  options.exec.queue = 1;
  start_sandbox("box", options);
  auto running = exec_later(spec("touch started; until [ -e go ]; do sleep 0.02; done; echo one"));
  ASSERT_TRUE(eventually([&] { return std::ifstream(file("started")).good(); }));
  auto waiting = exec_later(spec("echo two"));
  // The second may arrive before or after the third; exactly one of them finds the queue full.
  auto third = exec_later(spec("echo two"));
  const auto is_ready = [](const auto& f) { return f.wait_for(std::chrono::seconds(0)) == std::future_status::ready; };
  ASSERT_TRUE(eventually([&] { return is_ready(waiting) || is_ready(third); }));
  std::ofstream(file("go")) << "";
  EXPECT_EQ(running.get()->out, "one\n");
  const auto a = waiting.get();
  const auto b = third.get();
  EXPECT_NE(a.ok(), b.ok());
  const auto& refused = a.ok() ? b : a;
  EXPECT_NE(refused.error().message.find("busy: queue full"), std::string::npos) << refused.error().message;
}

TEST_F(ExecTest, AnUnknownSandboxAndABadKeyAreClearErrors) {
  start_sandbox("box");
  const auto unknown = exec(spec("true", "nobody"));
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("no sandbox 'nobody'"), std::string::npos);
  auto bad = spec("true");
  bad.workspace_key = "../escape";
  const auto refused = exec(bad);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("workspace_key"), std::string::npos);
}

TEST_F(ExecTest, ManyCommandsAtOnceEachGetTheirOwnOutput) {
  start_sandbox("box");
  std::vector<std::future<Result<ExecOutcome>>> running;
  for (int i = 0; i < 20; ++i) running.push_back(exec_later(spec("echo " + std::to_string(i))));
  for (int i = 0; i < 20; ++i) {
    const auto done = running[static_cast<std::size_t>(i)].get();
    ASSERT_TRUE(done.ok()) << done.error().message;
    EXPECT_EQ(done->out, std::to_string(i) + "\n");
  }
}

TEST_F(ExecTest, ARelayThatIsAwayIsUnavailable) {
  start_sandbox("box");
  stop_sandbox("box");
  stop_relay();
  const auto done = exec("true");
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().kind, ErrorKind::unavailable) << done.error().message;
}

TEST_F(ExecTest, AWrongExecTokenIsRefused) {
  start_sandbox("box");
  client = std::make_unique<ExecClient>(loop.executor(), exec_address(), kToken);
  const auto done = exec("true");
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().kind, ErrorKind::sandbox_failed);
  EXPECT_NE(done.error().message.find("token"), std::string::npos);
}

}  // namespace
}  // namespace roost::sandbox::test
