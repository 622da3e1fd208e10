#include <gtest/gtest.h>

#include "test_server.h"

namespace roost::net::testing {
namespace {

// One route /wait that runs until it is aborted and reports why, and whether a write still worked then.
class DisconnectTest : public ::testing::Test {
 protected:
  struct Seen {
    std::string reason;
    ErrorKind write_error = ErrorKind::io;
  };

  DisconnectTest() {
    server.router.add("GET", "/wait", [this](Exchange& exchange) -> awaitable<void> {
      running.set_value();
      std::string reason = co_await until_aborted(exchange);
      (void)co_await exchange.start(200, Headers{});
      const Result<void> written = co_await exchange.write("late");
      Seen result;
      result.reason = reason;
      if (!written) result.write_error = written.error().kind;
      seen.set_value(result);
    });
    server.router.add("GET", "/echo", echo);
    server.start();
  }

  void expect_client_gone() {
    auto future = seen.get_future();
    ASSERT_EQ(future.wait_for(kPatience), std::future_status::ready);
    const Seen result = future.get();
    EXPECT_EQ(result.reason, "client_gone");
    EXPECT_EQ(result.write_error, ErrorKind::cancelled);
    EXPECT_TRUE(eventually([&] { return server.server->connections() == 0; }));
  }

  std::promise<void> running;
  std::promise<Seen> seen;
  TestServer server;
};

TEST_F(DisconnectTest, ALeavingClientAbortsItsHandler) {
  RawClient client(server.port());
  client.send(get("/wait"));
  running.get_future().wait();
  client.close();
  expect_client_gone();
}

TEST_F(DisconnectTest, AResetAbortsTheHandler) {
  RawClient client(server.port());
  client.send(get("/wait"));
  running.get_future().wait();
  const linger hard{1, 0};
  ::setsockopt(client.fd(), SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
  client.close();
  expect_client_gone();
}

TEST_F(DisconnectTest, IsSeenBehindPipelinedBytesThatCameWithTheRequest) {
  RawClient client(server.port());
  client.send(get("/wait") + get("/echo"));
  running.get_future().wait();
  client.close();
  expect_client_gone();
}

TEST_F(DisconnectTest, IsSeenBehindPipelinedBytesThatCameLater) {
  RawClient client(server.port());
  client.send(get("/wait"));
  running.get_future().wait();
  client.send(get("/echo"));
  client.close();
  expect_client_gone();
}

class SlowReaderTest : public ::testing::Test {
 protected:
  TestServer server;
};

TEST_F(SlowReaderTest, AWriterWaitsForASlowReaderAndLosesNothing) {
  constexpr std::size_t kPieces = 400;
  const std::string piece(16 * 1024, 'p');
  server.router.add("GET", "/big", [&](Exchange& exchange) -> awaitable<void> {
    (void)co_await exchange.start(200, Headers{});
    for (std::size_t i = 0; i < kPieces; ++i) {
      const Result<void> written = co_await exchange.write(piece);
      if (!written) co_return;
    }
    (void)co_await exchange.finish();
  });
  server.options.connection.write_timeout = kPatience;
  server.start();
  RawClient client(server.port(), 4096);
  client.send(get("/big"));
  EXPECT_EQ(client.receive().body.size(), kPieces * piece.size());
}

TEST_F(SlowReaderTest, AClientThatDoesNotReadIsGivenUp) {
  std::promise<ErrorKind> end;
  server.router.add("GET", "/big", [&](Exchange& exchange) -> awaitable<void> {
    const std::string piece(256 * 1024, 'p');
    (void)co_await exchange.start(200, Headers{});
    while (true) {
      const Result<void> written = co_await exchange.write(piece);
      if (written) continue;
      const Result<void> later = co_await exchange.write("more");
      end.set_value(later.ok() ? ErrorKind::io : written.error().kind);
      co_return;
    }
  });
  server.options.connection.write_timeout = 50ms;
  server.start();
  RawClient client(server.port(), 4096);
  client.send(get("/big"));
  EXPECT_EQ(end.get_future().get(), ErrorKind::cancelled);
  EXPECT_TRUE(eventually([&] { return server.server->connections() == 0; }));
}

}  // namespace
}  // namespace roost::net::testing
