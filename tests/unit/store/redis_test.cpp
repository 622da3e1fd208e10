#include "store/redis.h"

#include <gtest/gtest.h>

#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "redis_fixture.h"
#include "store/redis_connection.h"
#include "store/redis_url.h"

namespace roost::store {
namespace {

using namespace std::chrono_literals;
using asio::awaitable;
using test::pause_for;
using test::run_until_done;

TEST(RedisUrl, ReadsTcpAndUnixForms) {
  const auto tcp = parse_redis_url("redis://:s%20ecret@db.example:7000/3");
  ASSERT_TRUE(tcp.ok());
  EXPECT_EQ(tcp->host, "db.example");
  EXPECT_EQ(tcp->port, 7000);
  EXPECT_EQ(tcp->password, "s ecret");
  EXPECT_EQ(tcp->database, 3);
  EXPECT_EQ(tcp->printable(), "redis://db.example:7000/3");

  const auto plain = parse_redis_url("redis://127.0.0.1");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->port, 6379);
  EXPECT_EQ(plain->database, 0);

  const auto unix_socket = parse_redis_url("unix:///run/r.sock?db=2");
  ASSERT_TRUE(unix_socket.ok());
  EXPECT_EQ(unix_socket->unix_path, "/run/r.sock");
  EXPECT_EQ(unix_socket->database, 2);

  const auto v6 = parse_redis_url("redis://[::1]:7001");
  ASSERT_TRUE(v6.ok());
  EXPECT_EQ(v6->host, "::1");
}

TEST(RedisUrl, RefusesOtherFormsWithoutRepeatingThem) {
  for (const char* text :
       {"", "localhost:6379", "http://h/", "redis://", "redis://h/x", "redis://h:0", "redis://h:99999",
        "unix://host/path", "unix://", "unix:///s?db=-1", "unix:///s?x=1", "redis://:geheim@h/zz"}) {
    const auto parsed = parse_redis_url(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().kind, ErrorKind::bad_config);
    EXPECT_EQ(parsed.error().message.find("geheim"), std::string::npos);
  }
}

TEST(RedisProtocol, EncodesBinarySafely) {
  EXPECT_EQ(encode_command({"SET", std::string("a\0\r\n", 4)}),
            std::string("*2\r\n$3\r\nSET\r\n$4\r\na\0\r\n\r\n", 23));
}

awaitable<void> set_and_get(Redis& redis) {
  const std::string value("a\0b\r\n", 5);
  std::vector<std::string> set{"SET", "k", value};
  auto stored = co_await redis.command(std::move(set));
  EXPECT_TRUE(stored.ok());
  EXPECT_EQ(stored->text, "OK");
  std::vector<std::string> get{"GET", "k"};
  auto got = co_await redis.command(std::move(get));
  EXPECT_TRUE(got.ok());
  EXPECT_EQ(got->text, value);
  std::vector<std::string> missing{"GET", "nope"};
  auto nil = co_await redis.command(std::move(missing));
  EXPECT_TRUE(nil.ok() && nil->is_nil());
}

awaitable<void> wrong_type(Redis& redis) {
  std::vector<std::string> push{"LPUSH", "list", "1"};
  (void)co_await redis.command(std::move(push));
  std::vector<std::string> get{"GET", "list"};
  auto reply = co_await redis.command(std::move(get));
  EXPECT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().kind, ErrorKind::internal);
  EXPECT_NE(reply.error().message.find("WRONGTYPE"), std::string::npos);
}

awaitable<void> run_script(Redis& redis) {
  for (int i = 1; i <= 2; ++i) {  // EVAL the first time, EVALSHA the second
    std::vector<std::string> keys{"counter"};
    std::vector<std::string> arguments{"5"};
    auto reply =
        co_await redis.script("return redis.call('INCRBY', KEYS[1], ARGV[1])", std::move(keys), std::move(arguments));
    EXPECT_TRUE(reply.ok());
    EXPECT_EQ(reply->integer, 5 * i);
  }
}

awaitable<void> ask(Redis& redis, int number, int& answered) {
  std::vector<std::string> words{"ECHO", std::to_string(number)};
  auto reply = co_await redis.command(std::move(words));
  EXPECT_TRUE(reply.ok());
  EXPECT_EQ(reply->text, std::to_string(number));
  ++answered;
}

struct RedisTest : testing::Test {
  RedisTest() { open(server.url()); }
  ~RedisTest() override {
    redis->close();
    context.restart();
    context.run_for(1s);
  }
  void open(const std::string& url) {
    auto opened = Redis::open(context.get_executor(), url);
    ASSERT_TRUE(opened.ok());
    redis = *opened;
  }
  void connect() {
    run_until_done(context, [](Redis& r) -> awaitable<void> {
      auto up = co_await r.wait_connected(30s);
      EXPECT_TRUE(up.ok());
    }(*redis));
  }

  asio::io_context context{1};
  test::RedisServer server;
  std::shared_ptr<Redis> redis;
};

TEST_F(RedisTest, ValuesAreBinarySafeAndMissingOnesNil) {
  connect();
  run_until_done(context, set_and_get(*redis));
}

TEST_F(RedisTest, AnErrorReplyIsAnErrorWithItsText) {
  connect();
  run_until_done(context, wrong_type(*redis));
}

TEST_F(RedisTest, ScriptsRunBeforeAndAfterTheyAreCached) {
  connect();
  run_until_done(context, run_script(*redis));
}

TEST_F(RedisTest, ManyCommandsAtOnceEachGetTheirOwnAnswer) {
  connect();
  constexpr int kCommands = 2'000;
  int answered = 0;
  for (int i = 0; i < kCommands; ++i) asio::co_spawn(context, ask(*redis, i, answered), asio::detached);
  run_until_done(context, [](int& count) -> awaitable<void> {
    while (count < kCommands) co_await pause_for(1ms);
  }(answered));
  EXPECT_EQ(answered, kCommands);
}

awaitable<void> fails_and_comes_back(Redis& redis, test::RedisServer& server) {
  server.stop();
  Result<RedisReply> reply = RedisReply{};
  while (reply.ok()) {
    std::vector<std::string> words{"PING"};
    reply = co_await redis.command(std::move(words));
  }
  EXPECT_EQ(reply.error().kind, ErrorKind::redis_unavailable);
  auto away = co_await redis.wait_connected(120ms);
  EXPECT_FALSE(away.ok());
  server.start();
  auto up = co_await redis.wait_connected(30s);
  EXPECT_TRUE(up.ok());
  std::vector<std::string> words{"PING"};
  auto pong = co_await redis.command(std::move(words));
  EXPECT_TRUE(pong.ok());
}

TEST_F(RedisTest, AKilledServerFailsCommandsAndARestartedOneServesThem) {
  connect();
  run_until_done(context, fails_and_comes_back(*redis, server));
}

awaitable<void> silent_server(Redis& redis, pid_t pid) {
  ::kill(pid, SIGSTOP);
  std::vector<std::string> words{"PING"};
  auto reply = co_await redis.command(std::move(words), 50ms);
  EXPECT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().kind, ErrorKind::redis_unavailable);
  EXPECT_FALSE(redis.connected());  // a silent connection is given up
  ::kill(pid, SIGCONT);
  auto up = co_await redis.wait_connected(30s);
  EXPECT_TRUE(up.ok());
  std::vector<std::string> again{"ECHO", "x"};
  auto echo = co_await redis.command(std::move(again));
  EXPECT_TRUE(echo.ok());
  EXPECT_EQ(echo->text, "x");
}

TEST_F(RedisTest, AServerThatDoesNotAnswerTimesOutAndLeavesNoWrongAnswerBehind) {
  connect();
  run_until_done(context, silent_server(*redis, server.pid()));
}

TEST_F(RedisTest, CommandsBeforeTheFirstConnectionFailAtOnce) {
  run_until_done(context, [](Redis& r) -> awaitable<void> {
    std::vector<std::string> words{"PING"};
    auto reply = co_await r.command(std::move(words));
    EXPECT_FALSE(reply.ok());
    EXPECT_EQ(reply.error().kind, ErrorKind::redis_unavailable);
  }(*redis));
}

std::uint16_t free_port() {
  asio::io_context context;
  asio::ip::tcp::acceptor probe(context, {asio::ip::address_v4::loopback(), 0});
  return probe.local_endpoint().port();
}

awaitable<void> use_database(Redis& right, Redis& wrong) {
  auto up = co_await right.wait_connected(30s);
  EXPECT_TRUE(up.ok());
  std::vector<std::string> words{"CLIENT", "INFO"};
  auto told = co_await right.command(std::move(words));
  EXPECT_TRUE(told.ok());
  EXPECT_NE(told->text.find(" db=3 "), std::string::npos) << told->text;

  // The reason arrives with the first attempt; until then the connection is merely not there yet.
  Result<void> refused;
  for (int attempt = 0; attempt < 500; ++attempt) {
    refused = co_await wrong.wait_connected(20ms);
    if (refused.ok() || refused.error().message.find("WRONGPASS") != std::string::npos) break;
  }
  EXPECT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("WRONGPASS"), std::string::npos);
  EXPECT_EQ(refused.error().message.find("falsch"), std::string::npos);
}

TEST(RedisLogin, PasswordAndDatabaseOfTheUrlAreUsedAndAWrongPasswordIsReported) {
  asio::io_context context{1};
  const std::string port = std::to_string(free_port());
  test::RedisServer server({"--requirepass", "geheim", "--port", port});
  auto right = Redis::open(context.get_executor(), "redis://:geheim@127.0.0.1:" + port + "/3");
  auto wrong = Redis::open(context.get_executor(), "redis://:falsch@127.0.0.1:" + port);
  ASSERT_TRUE(right.ok() && wrong.ok());
  run_until_done(context, use_database(**right, **wrong));
  (*right)->close();
  (*wrong)->close();
  context.restart();
  context.run_for(1s);
}

}  // namespace
}  // namespace roost::store
