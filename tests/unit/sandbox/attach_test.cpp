// Who may attach, and what happens when streams come and go.
#include <fstream>

#include "sandbox/attach_client.h"
#include "test_stack.h"

namespace roost::sandbox::test {
namespace {

// A bare client that attaches with one token and one id, and tells how the stream ended.
grpc::Status attach_once(const std::string& address, const std::string& token, const std::string& id) {
  auto stub = wire::SandboxWorker::NewStub(make_channel(address));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
  auto stream = stub->Attach(&context);
  wire::WorkerFrame hello;
  hello.mutable_hello()->set_sandbox_id(id);
  stream->Write(hello);
  wire::ServerFrame frame;
  // Let in: leave at once. Refused: the read ends with the status.
  stream->WaitForInitialMetadata();
  if (context.GetServerInitialMetadata().empty()) stream->WritesDone();
  while (stream->Read(&frame)) {
  }
  return stream->Finish();
}

class AttachTest : public Stack {
 protected:
  void SetUp() override {
    Stack::SetUp();
    if (!relay) return;
    stop_relay();
    RelayAuth two{"shared", {{"alice", "alice-token"}, {"bob", "bob-token"}}, kExecToken};
    start_relay({"127.0.0.1:0", "127.0.0.1:0", two, nullptr});
    client = std::make_unique<ExecClient>(loop.executor(), exec_address(), kExecToken);
  }
  grpc::StatusCode attach(const std::string& token, const std::string& id) {
    return attach_once(attach_address(), token, id).error_code();
  }
};

TEST_F(AttachTest, EachIdNeedsItsOwnToken) {
  EXPECT_EQ(attach("alice-token", "alice"), grpc::StatusCode::OK);
  EXPECT_EQ(attach("bob-token", "bob"), grpc::StatusCode::OK);
  EXPECT_EQ(attach("shared", "carol"), grpc::StatusCode::OK);
  EXPECT_EQ(attach("", "alice"), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(attach("wrong", "alice"), grpc::StatusCode::UNAUTHENTICATED);
  // A token of another id is a known one, so only the Hello shows that it is wrong.
  EXPECT_EQ(attach("bob-token", "alice"), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(attach("shared", "alice"), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(attach(kExecToken, "carol"), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(attach("shared", "../x"), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(AttachTest, ASecondStreamOfALiveIdIsRefusedAndTheFirstGoesOn) {
  start_sandbox("alice", sandbox_options("alice", "alice-token"));
  auto running = exec_later(spec("touch started; until [ -e go ]; do sleep 0.02; done; echo undisturbed", "alice"));
  ASSERT_TRUE(eventually([&] { return std::ifstream(file("started")).good(); }));
  EXPECT_EQ(attach("alice-token", "alice"), grpc::StatusCode::ALREADY_EXISTS);
  ASSERT_TRUE(exec(spec("touch go", "alice")).ok());
  EXPECT_EQ(running.get()->out, "undisturbed\n");
}

TEST_F(AttachTest, ARelayWithoutTokensRefusesEveryone) {
  stop_relay();
  start_relay({"127.0.0.1:0", "127.0.0.1:0", RelayAuth{}, nullptr});
  EXPECT_EQ(attach("", "alice"), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(attach("anything", "alice"), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(AttachTest, ASandboxComesBackToARestartedRelay) {
  const int port = relay->attach_port();
  std::atomic<int> times{0};
  auto options = sandbox_options("alice", "alice-token");
  options.on_attached = [&] { ++times; };
  start_sandbox("alice", options);
  stop_relay();
  start_relay(
      {join_address("127.0.0.1", port), "127.0.0.1:0", RelayAuth{"", {{"alice", "alice-token"}}, kExecToken}, nullptr});
  ASSERT_TRUE(eventually([&] { return times == 2; }));
  client = std::make_unique<ExecClient>(loop.executor(), exec_address(), kExecToken);
  EXPECT_EQ(exec(spec("echo back", "alice"))->out, "back\n");
}

TEST_F(AttachTest, APortInUseIsAClearError) {
  for (const bool exec_port : {false, true}) {
    RelayOptions options{"127.0.0.1:0", "127.0.0.1:0", auth(), nullptr};
    (exec_port ? options.exec_address : options.attach_address) = attach_address();
    const auto second = loop.call([&] {
      auto started = Relay::start(loop.executor(), options, clock);
      return started ? std::string("started") : std::string(started.error().name()) + ": " + started.error().message;
    });
    EXPECT_NE(second.find("bad_config"), std::string::npos) << second;
    EXPECT_NE(second.find("Address already in use"), std::string::npos) << second;
  }
}

TEST_F(AttachTest, TwoClientsWithTheSameRequestIdDoNotMix) {
  start_sandbox("alice", sandbox_options("alice", "alice-token"));
  // Each ExecClient counts from 1, so the first calls of two clients collide.
  ExecClient other(loop.executor(), exec_address(), kExecToken);
  ExecClient another(loop.executor(), exec_address(), kExecToken);
  auto a = loop.launch(other.exec(spec("until [ -e go ]; do sleep 0.02; done; echo a", "alice")));
  auto b = loop.launch(another.exec(spec("until [ -e go ]; do sleep 0.02; done; echo b", "alice")));
  ASSERT_TRUE(exec(spec("touch go", "alice")).ok());
  EXPECT_EQ(a.get()->out, "a\n");
  EXPECT_EQ(b.get()->out, "b\n");
}

TEST_F(AttachTest, TheAbortCallEndsTheCommandWithMinusOne) {
  start_sandbox("alice", sandbox_options("alice", "alice-token"));
  ExecClient fresh(loop.executor(), exec_address(), kExecToken);
  auto running = loop.launch(fresh.exec(spec("touch started; sleep 600", "alice")));
  ASSERT_TRUE(eventually([&] { return std::ifstream(file("started")).good(); }));
  auto stub = wire::SandboxExec::NewStub(make_channel(exec_address()));
  const auto abort = [&](const std::string& token, std::uint64_t req_id) {
    grpc::ClientContext context;
    context.AddMetadata("authorization", "Bearer " + token);
    wire::AbortRequest request;
    request.set_sandbox_id("alice");
    request.set_req_id(req_id);
    wire::AbortResponse response;
    return stub->Abort(&context, request, &response).error_code();
  };
  EXPECT_EQ(abort("wrong", 1), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(abort(kExecToken, 99), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(abort(kExecToken, 1), grpc::StatusCode::OK);
  const auto outcome = running.get();
  ASSERT_TRUE(outcome.ok()) << outcome.error().message;
  EXPECT_EQ(outcome->exit_code, -1);
}

TEST(RelayAuthTest, TokensComeFromFileAndEnvironment) {
  const char* const environment[] = {"SH_RELAY_TOKEN_box_2=two", "SH_RELAY_TOKENS_FILE=/x", "SH_RELAY_TOKEN=shared",
                                     "SH_RELAY_TOKEN_=no", nullptr};
  const auto auth = RelayAuth::make("shared", "exec", R"({"box-1": "one"})", environment);
  ASSERT_TRUE(auth.ok()) << auth.error().message;
  EXPECT_TRUE(auth->may_attach("box-1", "one"));
  EXPECT_TRUE(auth->may_attach("box_2", "two"));
  EXPECT_TRUE(auth->may_attach("box-3", "shared"));
  EXPECT_FALSE(auth->may_attach("box-1", "shared"));
  EXPECT_FALSE(auth->may_attach("", ""));
  EXPECT_EQ(auth->by_id.size(), 2U);
}

TEST(RelayAuthTest, AnExecTokenThatEqualsAnAttachTokenIsRefused) {
  const char* const none[] = {nullptr};
  EXPECT_FALSE(RelayAuth::make("same", "same", "", none).ok());
  EXPECT_FALSE(RelayAuth::make("", "same", R"({"a": "same"})", none).ok());
  EXPECT_TRUE(RelayAuth::make("", "", "", none).ok());
  for (const char* bad : {"[]", "{", R"({"a": 1})", R"({"a": ""})"})
    EXPECT_FALSE(RelayAuth::make("", "e", bad, none).ok()) << bad;
}

TEST(RelayAuthTest, NoSecretMatchesNothing) {
  EXPECT_FALSE(same_secret("", ""));
  EXPECT_FALSE(same_secret("a", "b"));
  EXPECT_FALSE(same_secret("a", "aa"));
  EXPECT_TRUE(same_secret("abc", "abc"));
}

}  // namespace
}  // namespace roost::sandbox::test
