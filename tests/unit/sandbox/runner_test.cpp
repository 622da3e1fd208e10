// The sandbox's commands without a relay: joining, replaying, waiting, stopping.
#include <fstream>
#include <mutex>
#include <vector>

#include "test_stack.h"

namespace roost::sandbox::test {
namespace {

class Sink final : public FrameSink {
 public:
  void send(wire::WorkerFrame frame) override {
    const std::lock_guard lock(mutex_);
    frames_.push_back(std::move(frame));
  }
  boost::asio::awaitable<void> writable() override { co_return; }

  std::vector<wire::WorkerFrame> of(wire::WorkerFrame::FrameCase kind) const {
    const std::lock_guard lock(mutex_);
    std::vector<wire::WorkerFrame> found;
    for (const auto& frame : frames_) {
      if (frame.frame_case() == kind) found.push_back(frame);
    }
    return found;
  }
  std::string output() const {
    std::string text;
    for (const auto& frame : of(wire::WorkerFrame::kChunk)) text += frame.chunk().data();
    return text;
  }
  std::size_t ends() const { return of(wire::WorkerFrame::kEnd).size() + of(wire::WorkerFrame::kError).size(); }
  bool wait_ends(std::size_t count) const {
    return eventually([&] { return ends() >= count; });
  }
  std::string error() const {
    const auto errors = of(wire::WorkerFrame::kError);
    return errors.empty() ? "" : errors.back().error().message();
  }

 private:
  mutable std::mutex mutex_;
  std::vector<wire::WorkerFrame> frames_;
};

// Also where bubblewrap does not work: without isolation.
class RunnerTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { make({}); }
  void make(ExecRunner::Options options) {
    const bool contained = GetParam();
    if (contained && !isolation()) GTEST_SKIP() << isolation().error().message;
    stop();
    auto folder = *Workspaces::open(workspace_root());
    auto none = *Isolation::find({Isolation::Mode::none, false, {}}, *plain_zygote(), folder);
    if (contained) folder.set_owner(isolation()->run_uid());
    runner = std::make_unique<ExecRunner>(loop.executor(), options, contained ? contained_zygote() : plain_zygote(),
                                          folder, contained ? *isolation() : none, sink);
  }
  void TearDown() override { stop(); }
  void stop() {
    if (!runner) return;
    loop.run(runner->stop(std::chrono::milliseconds(0)));
    runner.reset();
  }
  void submit(std::uint64_t id, const std::string& command, std::uint32_t timeout_s = 60) {
    wire::Exec exec;
    exec.set_req_id(id);
    exec.set_command(command);
    exec.set_timeout_s(timeout_s);
    exec.set_streaming(streaming);
    exec.set_workspace_key(key);
    loop.call([&] {
      runner->submit(exec);
      return true;
    });
  }
  void abort(std::uint64_t id) {
    loop.call([&] {
      runner->abort(id);
      return true;
    });
  }
  std::string file(const std::string& name) const { return workspace_root() + "/" + key + "/" + name; }
  bool appears(const std::string& name) const {
    return eventually([&] { return std::ifstream(file(name)).good(); });
  }
  bool stands_still(const std::string& name) {
    return eventually([&] {
      const auto before = read_text(file(name));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      return read_text(file(name)) == before;
    });
  }

  std::string key = unique_key();
  bool streaming = true;
  Sink sink;
  Loop loop;
  std::unique_ptr<ExecRunner> runner;
};

TEST_P(RunnerTest, ARepeatedRequestJoinsTheRunningCommand) {
  const std::string command = "echo x >> runs; touch started; until [ -e go ]; do sleep 0.02; done; echo done";
  submit(7, command);
  ASSERT_TRUE(appears("started"));
  submit(7, command);
  std::ofstream(file("go")) << "";
  ASSERT_TRUE(sink.wait_ends(1));
  EXPECT_EQ(sink.output(), "done\n");
  EXPECT_EQ(read_text(file("runs")), "x\n");
  EXPECT_EQ(sink.ends(), 1U);
}

TEST_P(RunnerTest, ARepeatedRequestGetsTheEndOfTheFinishedCommand) {
  submit(7, "echo x >> runs; exit 4");
  ASSERT_TRUE(sink.wait_ends(1));
  submit(7, "echo x >> runs; exit 4");
  ASSERT_TRUE(sink.wait_ends(2));
  EXPECT_EQ(sink.of(wire::WorkerFrame::kEnd).back().end().exit_code(), 4);
  EXPECT_EQ(read_text(file("runs")), "x\n");
  // Another command under an id that is free again runs.
  submit(7, "echo other");
  ASSERT_TRUE(sink.wait_ends(3));
  EXPECT_EQ(sink.output(), "other\n");
}

TEST_P(RunnerTest, AnotherCommandUnderARunningIdIsRefused) {
  submit(7, "touch started; until [ -e go ]; do sleep 0.02; done; echo first");
  ASSERT_TRUE(appears("started"));
  submit(7, "echo second");
  EXPECT_NE(sink.error().find("running another command"), std::string::npos);
  std::ofstream(file("go")) << "";
  ASSERT_TRUE(sink.wait_ends(2));
  EXPECT_EQ(sink.output(), "first\n");
}

TEST_P(RunnerTest, OutputIsHeldBackWhenItDoesNotStream) {
  streaming = false;
  submit(1, "echo a; sleep 0.1; echo b; echo c >&2; sleep 0.1; echo d");
  ASSERT_TRUE(sink.wait_ends(1));
  const auto chunks = sink.of(wire::WorkerFrame::kChunk);
  ASSERT_EQ(chunks.size(), 2U);
  EXPECT_EQ(chunks[0].chunk().data(), "a\nb\nd\n");
  EXPECT_EQ(chunks[1].chunk().data(), "c\n");
  EXPECT_EQ(chunks[1].chunk().stream(), wire::STREAM_STDERR);
}

TEST_P(RunnerTest, ChunksAreOf32KiBAtMost) {
  submit(1, "head -c 1000000 /dev/zero");
  ASSERT_TRUE(sink.wait_ends(1));
  EXPECT_EQ(sink.output().size(), 1'000'000U);
  for (const auto& frame : sink.of(wire::WorkerFrame::kChunk)) EXPECT_LE(frame.chunk().data().size(), 32U * 1024);
}

TEST_P(RunnerTest, AnAbortEndsARunningAndAWaitingCommandWithMinusOne) {
  make({1, 64, std::chrono::seconds(30)});
  submit(1, "touch started; while true; do echo x >> ticks; sleep 0.01; done");
  ASSERT_TRUE(appears("started"));
  submit(2, "echo never");
  abort(2);
  ASSERT_TRUE(sink.wait_ends(1));
  EXPECT_EQ(sink.of(wire::WorkerFrame::kEnd)[0].end().req_id(), 2U);
  abort(1);
  ASSERT_TRUE(sink.wait_ends(2));
  for (const auto& frame : sink.of(wire::WorkerFrame::kEnd)) EXPECT_EQ(frame.end().exit_code(), -1);
  EXPECT_TRUE(stands_still("ticks"));
  EXPECT_EQ(sink.output(), "");
}

TEST_P(RunnerTest, TheQueueHasABoundAndKeepsItsOrder) {
  make({1, 2, std::chrono::seconds(30)});
  submit(1, "touch started; until [ -e go ]; do sleep 0.02; done; echo 1");
  ASSERT_TRUE(appears("started"));
  submit(2, "echo 2");
  submit(3, "echo 3");
  submit(4, "echo 4");
  EXPECT_EQ(sink.error(), "busy: queue full");
  std::ofstream(file("go")) << "";
  ASSERT_TRUE(sink.wait_ends(4));
  EXPECT_EQ(sink.output(), "1\n2\n3\n");
}

TEST_P(RunnerTest, ATimeoutCountsTheWaitingToo) {
  make({1, 2, std::chrono::seconds(30)});
  submit(1, "touch started; until [ -e go ]; do sleep 0.02; done");
  ASSERT_TRUE(appears("started"));
  submit(2, "echo late", 1);
  ASSERT_TRUE(sink.wait_ends(1));
  EXPECT_EQ(sink.error(), "timeout:1");
  std::ofstream(file("go")) << "";
  ASSERT_TRUE(sink.wait_ends(2));
}

TEST_P(RunnerTest, ATimeoutKillsWhatLeftTheGroup) {
  submit(1, "setsid bash -c 'while true; do echo x >> ticks; sleep 0.01; done' & sleep 600", 2);
  ASSERT_TRUE(sink.wait_ends(1));
  EXPECT_EQ(sink.error(), "timeout:2");
  EXPECT_TRUE(stands_still("ticks"));
}

TEST_P(RunnerTest, ADaemonDiesWithItsCommand) {
  submit(1,
         "(setsid bash -c 'while true; do echo x >> ticks; sleep 0.01; done' &) ; until [ -s ticks ]; do sleep 0.01; "
         "done");
  ASSERT_TRUE(sink.wait_ends(1));
  EXPECT_TRUE(stands_still("ticks"));
}

TEST_P(RunnerTest, WithoutARelayCommandsEndAfterTheGrace) {
  make({4, 4, std::chrono::milliseconds(50)});
  submit(1, "touch started; while true; do echo x >> ticks; sleep 0.01; done");
  ASSERT_TRUE(appears("started"));
  loop.call([&] {
    runner->detached();
    return true;
  });
  ASSERT_TRUE(sink.wait_ends(1));
  EXPECT_TRUE(stands_still("ticks"));
}

TEST_P(RunnerTest, BadRequestsAreClearErrors) {
  submit(1, "");
  EXPECT_NE(sink.error().find("command"), std::string::npos);
  submit(2, "true", 4'000'000'000U);
  EXPECT_NE(sink.error().find("timeout_s"), std::string::npos);
  key = "a/../b";
  submit(3, "true");
  EXPECT_NE(sink.error().find("workspace_key"), std::string::npos);
}

TEST_P(RunnerTest, ASignalIsANegativeOrShellExitCode) {
  submit(1, "kill -9 $$");
  ASSERT_TRUE(sink.wait_ends(1));
  const int code = sink.of(wire::WorkerFrame::kEnd)[0].end().exit_code();
  EXPECT_TRUE(code == -9 || code == 137) << code;
}

INSTANTIATE_TEST_SUITE_P(Isolation, RunnerTest, ::testing::Bool(),
                         [](const auto& tested) { return tested.param ? "bwrap" : "none"; });

}  // namespace
}  // namespace roost::sandbox::test
