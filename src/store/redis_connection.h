// The connection behind Redis: connects, stays connected, and matches answers to commands by their order.
//
// Invariants
// 1. Answers come in the order of the commands, so waiting_ is a queue; every command that was handed to the socket has
// its
//    entry there until its answer came or the connection was dropped.
// 2. A command that timed out keeps its (abandoned) entry, so that a late answer is not taken for the next command's.
// When
//    nothing at all came from Redis since that command was sent, the connection is dead: it is dropped.
// 3. A dropped connection fails every waiting command; nothing is sent again.
//
// Used from one executor.
#pragma once

#include <hiredis/hiredis.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "store/redis.h"
#include "store/redis_url.h"

namespace roost::store {

class RedisConnection : public std::enable_shared_from_this<RedisConnection> {
 public:
  RedisConnection(asio::any_io_executor executor, RedisUrl url);
  RedisConnection(const RedisConnection&) = delete;

  // Begins to connect; the work keeps `this` alive until close().
  void start();
  void close();
  bool connected() const { return connected_; }
  std::uint64_t connections() const { return connections_; }

  asio::awaitable<Result<RedisReply>> command(std::vector<std::string> arguments, std::chrono::milliseconds timeout);
  asio::awaitable<Result<void>> wait_connected(std::chrono::milliseconds timeout);

 private:
  using SteadyTime = std::chrono::steady_clock::time_point;
  struct Waiting {
    explicit Waiting(const asio::any_io_executor& executor) : wake(executor) {}
    asio::steady_timer wake;  // cancelled when `result` is there
    std::optional<Result<RedisReply>> result;
    SteadyTime sent;
  };
  struct FreeReader {
    void operator()(redisReader* reader) const { redisReaderFree(reader); }
  };

  asio::awaitable<void> run();
  asio::awaitable<Result<void>> connect();
  asio::awaitable<Result<void>> connect_socket();
  asio::awaitable<Result<void>> handshake();
  asio::awaitable<void> read_until_lost();
  // Waits for bytes and gives them to the reader; false when the connection is lost.
  asio::awaitable<bool> read_some();
  // The next answer among the bytes read so far; empty when none is complete. A protocol error drops the connection.
  std::optional<Result<RedisReply>> parsed_reply();

  void send(std::string_view encoded);
  void flush();
  void drop(std::string why);
  void fail_waiting(const Error& error);
  void wake_connect_waiters();
  Error unavailable() const;

  asio::any_io_executor executor_;
  RedisUrl url_;
  asio::generic::stream_protocol::socket socket_;
  asio::steady_timer retry_;
  std::unique_ptr<redisReader, FreeReader> reader_;
  std::vector<char> input_;
  std::string outgoing_;  // commands that wait for the write under way
  bool writing_ = false;
  std::uint64_t generation_ = 0;  // of the connection; a write of an older one has nothing to say
  bool connected_ = false;
  std::uint64_t connections_ = 0;  // made so far
  bool closed_ = false;
  std::string last_error_ = "not connected yet";
  SteadyTime last_received_{};
  std::deque<std::shared_ptr<Waiting>> waiting_;
  std::list<std::shared_ptr<asio::steady_timer>> connect_waiters_;
};

// "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
std::string encode_command(const std::vector<std::string>& arguments);

}  // namespace roost::store
