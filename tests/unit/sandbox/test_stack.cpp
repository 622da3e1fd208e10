#include "test_stack.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace roost::sandbox::test {
namespace {

namespace fs = std::filesystem;

struct Shared {
  std::string root;
  std::shared_ptr<Zygote> contained;
  std::shared_ptr<Zygote> plain;
  std::unique_ptr<Result<Isolation>> isolation;
};
Shared& shared() {
  static Shared s;
  return s;
}

class Environment : public ::testing::Environment {
 public:
  void SetUp() override {
    std::string name = "/tmp/roost-sandbox-test-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    shared().root = name;
    auto contained = Zygote::start({true, name});
    auto plain = Zygote::start({false, name});
    ASSERT_TRUE(contained.ok() && plain.ok());
    shared().contained = *contained;
    shared().plain = *plain;
    auto folder = *Workspaces::open(name);
    shared().isolation = std::make_unique<Result<Isolation>>(Isolation::find({}, **contained, folder));
  }
  void TearDown() override {
    shared().contained.reset();
    shared().plain.reset();
    std::error_code ignored;
    fs::remove_all(shared().root, ignored);
  }
};
[[maybe_unused]] const auto* const environment = ::testing::AddGlobalTestEnvironment(new Environment);

}  // namespace

std::shared_ptr<Zygote> contained_zygote() { return shared().contained; }
std::shared_ptr<Zygote> plain_zygote() { return shared().plain; }
const std::string& workspace_root() { return shared().root; }
const Result<Isolation>& isolation() { return *shared().isolation; }

Workspaces workspaces() {
  auto folder = *Workspaces::open(workspace_root());
  if (isolation()) folder.set_owner(isolation()->run_uid());
  return folder;
}

std::string unique_key() {
  static int next = 0;
  return "ws-" + std::to_string(++next);
}

bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

std::string read_text(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

RelayAuth Stack::auth() const { return {kToken, {}, kExecToken}; }

void Stack::SetUp() {
  if (!isolation()) GTEST_SKIP() << isolation().error().message;
  start_relay({"127.0.0.1:0", "127.0.0.1:0", auth(), nullptr});
  client = std::make_unique<ExecClient>(loop.executor(), exec_address(), kExecToken);
}

void Stack::TearDown() {
  client.reset();
  while (!sandboxes.empty()) stop_sandbox(sandboxes.begin()->first);
  if (relay) stop_relay();
}

void Stack::start_relay(RelayOptions options) {
  relay = loop.call([&] {
    auto started = Relay::start(loop.executor(), options, clock);
    EXPECT_TRUE(started.ok()) << started.error().message;
    return *std::move(started);
  });
}

void Stack::stop_relay() {
  loop.run(relay->stop());
  relay.reset();
}

SandboxOptions Stack::sandbox_options(const std::string& id, const std::string& token) const {
  SandboxOptions options;
  options.attach.relay = attach_address();
  options.attach.token = token;
  options.attach.hello.set_sandbox_id(id);
  options.attach.hello.set_capacity_max(4);
  options.attach.retry_min = std::chrono::milliseconds(50);
  options.attach.retry_max = std::chrono::milliseconds(200);
  return options;
}

void Stack::start_sandbox(const std::string& id, SandboxOptions options) {
  std::promise<void> attached;
  auto in = attached.get_future();
  auto promise = std::make_shared<std::promise<void>>(std::move(attached));
  auto also = options.on_attached;
  options.on_attached = [promise, also]() mutable {
    if (promise) promise->set_value();
    promise.reset();
    if (also) also();
  };
  loop.call([&] {
    auto box =
        std::make_unique<Sandbox>(loop.executor(), std::move(options), contained_zygote(), workspaces(), *isolation());
    box->start();
    sandboxes[id] = std::move(box);
    return true;
  });
  ASSERT_EQ(in.wait_for(std::chrono::seconds(20)), std::future_status::ready) << "the sandbox did not attach";
}

void Stack::stop_sandbox(const std::string& id) {
  auto box = std::move(sandboxes.at(id));
  sandboxes.erase(id);
  loop.run(box->stop(std::chrono::milliseconds(0)));
  loop.call([&] {
    box.reset();
    return true;
  });
}

ExecSpec Stack::spec(const std::string& command, const std::string& sandbox_id) const {
  ExecSpec spec;
  spec.sandbox_id = sandbox_id;
  spec.command = command;
  spec.timeout = std::chrono::seconds(60);
  spec.workspace_key = key;
  return spec;
}

Result<ExecOutcome> Stack::exec(ExecSpec spec) { return exec_later(std::move(spec)).get(); }

std::future<Result<ExecOutcome>> Stack::exec_later(ExecSpec spec, AbortSource* abort) {
  return loop.launch(client->exec(std::move(spec), abort));
}

}  // namespace roost::sandbox::test
