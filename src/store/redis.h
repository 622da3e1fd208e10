// Redis client on hiredis, driven by Asio: one connection, commands pipelined in order, reconnect with backoff for
// ever. While Redis is away commands fail at once with redis_unavailable; nothing is retried behind the caller's back,
// because a command that was sent may have been carried out.
//
// Used from one executor.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace roost::store {

namespace asio = boost::asio;

// A reply, in the words of RESP2.
struct RedisReply {
  enum class Type { nil, integer, string, status, array } type = Type::nil;
  std::int64_t integer = 0;
  std::string text;                  // string and status
  std::vector<RedisReply> elements;  // array

  bool is_nil() const { return type == Type::nil; }
};

class Redis {
 public:
  // "redis://[:password@]host[:port][/db]" or "unix:///path/to.sock[?db=n]"; anything else is Error bad_config.
  static Result<std::shared_ptr<Redis>> open(asio::any_io_executor executor, std::string_view url);
  ~Redis();
  Redis(const Redis&) = delete;

  // One command. Arguments are binary-safe. An error reply of Redis is Error internal with its text; no connection or a
  // lost one, or no answer within `timeout`, is redis_unavailable.
  asio::awaitable<Result<RedisReply>> command(std::vector<std::string> arguments,
                                              std::chrono::milliseconds timeout = std::chrono::seconds(5));
  // EVALSHA with a fall-back to EVAL when the script is not there.
  asio::awaitable<Result<RedisReply>> script(std::string_view source, std::vector<std::string> keys,
                                             std::vector<std::string> arguments);

  // Waits until connected, at most `timeout`.
  asio::awaitable<Result<void>> wait_connected(std::chrono::milliseconds timeout);
  bool connected() const;
  // Connections made so far: a change means that one was lost in between, however shortly.
  std::uint64_t connections() const;
  void close();

 private:
  struct Impl;
  explicit Redis(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace roost::store
