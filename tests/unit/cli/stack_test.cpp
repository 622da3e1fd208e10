#include "cli/stack.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdlib>
#include <filesystem>

namespace roost::cli {
namespace {

using namespace std::chrono_literals;

// A part that says it is ready and then waits for SIGTERM.
constexpr const char* kGood =
    R"(trap 'exit 0' TERM; echo '{"event":"good ready","port":7}'; while :; do sleep 0.05; done)";

PartSpec shell_part(std::string name, const std::string& script) {
  PartSpec part;
  part.name = std::move(name);
  part.ready_event = "good ready";
  part.child.argv = {"bash", "-c", script};
  part.stop_timeout = 10s;
  return part;
}

// co_spawn's completion wants a default-constructible result, which a Result is not.
asio::awaitable<void> start_into(Stack& stack, PartSpec spec, std::optional<Result<json::object>>& out) {
  auto result = co_await stack.start(std::move(spec));
  out.emplace(std::move(result));
}

class StackTest : public testing::Test {
 protected:
  StackTest()
      : stack_(io_.get_executor(),
               {{}, [this](auto&, auto&, auto) { ++restarts_; }, [this](const Error& e) { failure_ = e; }}) {}

  Result<json::object> start(PartSpec spec) {
    std::optional<Result<json::object>> out;
    asio::co_spawn(io_, start_into(stack_, std::move(spec), out), asio::detached);
    run_until([&] { return out.has_value(); });
    return *std::move(out);
  }

  void stop() {
    bool stopped = false;
    asio::co_spawn(io_, stack_.stop(), [&](const std::exception_ptr&) { stopped = true; });
    run_until([&] { return stopped; });
  }

  template <class F>
  void run_until(F condition) {
    const auto deadline = std::chrono::steady_clock::now() + 30s;
    while (!condition()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "waited too long";
      io_.restart();
      io_.run_for(10ms);
    }
  }

  asio::io_context io_{1};
  int restarts_ = 0;
  std::optional<Error> failure_;
  Stack stack_;
};

TEST_F(StackTest, APartIsReadyWhenItSaysSoAndItsEventCarriesWhereItListens) {
  auto ready = start(shell_part("good", kGood));
  ASSERT_TRUE(ready.ok());
  EXPECT_EQ(ready->at("port"), 7);
  stop();
  EXPECT_EQ(restarts_, 0);
}

TEST_F(StackTest, APartThatEndsInsteadIsAnErrorWithItsLastWords) {
  auto ready = start(shell_part("bad", "echo 'no such file: x.gguf' >&2; exit 78"));
  ASSERT_FALSE(ready.ok());
  EXPECT_EQ(ready.error().kind, ErrorKind::bad_config);
  EXPECT_NE(ready.error().message.find("no such file: x.gguf"), std::string::npos);
  EXPECT_NE(ready.error().message.find("exit code 78"), std::string::npos);
}

TEST_F(StackTest, AProgramThatIsNotThereIsNamed) {
  PartSpec part = shell_part("gone", "");
  part.child.argv = {"no-such-program-here"};
  auto ready = start(std::move(part));
  ASSERT_FALSE(ready.ok());
  EXPECT_NE(ready.error().message.find("no-such-program-here"), std::string::npos);
}

TEST_F(StackTest, ACrashedPartIsStartedAgain) {
  char folder[] = "/tmp/roost-stack-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  const std::string mark = std::string(folder) + "/second";
  // The first life kills itself, the second leaves a mark.
  const std::string script = std::string("if [ -e ") + folder + "/first ]; then touch " + mark + "; " + kGood +
                             "; fi; touch " + folder +
                             "/first; echo '{\"event\":\"good ready\"}'; sleep 0.2; kill -9 $$";
  ASSERT_TRUE(start(shell_part("flaky", script)).ok());
  run_until([&] { return std::filesystem::exists(mark); });
  EXPECT_EQ(restarts_, 1);
  EXPECT_FALSE(failure_);
  stop();
  std::filesystem::remove_all(folder);
}

TEST_F(StackTest, APartThatCrashesAgainAndAgainFailsTheStack) {
  ASSERT_TRUE(
      start(shell_part("hopeless", R"(echo '{"event":"good ready"}'; sleep 0.02; echo broken >&2; exit 3)")).ok());
  run_until([&] { return failure_.has_value(); });
  EXPECT_GE(restarts_, 3);
  EXPECT_NE(failure_->message.find("broken"), std::string::npos);
  stop();
}

TEST_F(StackTest, APartThatDoesNotStopIsKilled) {
  PartSpec part =
      shell_part("stubborn", R"(trap '' TERM; echo '{"event":"good ready"}'; while :; do sleep 0.05; done)");
  part.stop_timeout = 0s;
  ASSERT_TRUE(start(std::move(part)).ok());
  stop();
}

TEST_F(StackTest, TheEnvironmentOfAPartIsOursAndWhatIsAddedAndAmended) {
  PartSpec part = shell_part(
      "env", R"(echo "{\"event\":\"good ready\",\"port\":\"$ROOST_TEST_PORT\",\"home\":\"$HOME\"}"; sleep 60)");
  part.child.environment = {"ROOST_TEST_PORT=5"};
  auto ready = start(std::move(part));
  ASSERT_TRUE(ready.ok());
  EXPECT_EQ(ready->at("port"), "5");
  EXPECT_EQ(ready->at("home"), json::value(std::getenv("HOME")));
  stop();
}

}  // namespace
}  // namespace roost::cli
