// Wire: one TCP socket in non-blocking mode with a time-out on every wait. Internal to net/ (server side).
// Lives on one executor. One wait at a time.
#pragma once

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>

#include "core/result.h"
#include "net/deadline.h"

namespace roost::net {

// The pieces of one gathered write; borrows their bytes.
class Pieces {
 public:
  void add(std::string_view piece);
  bool empty() const { return first_ == count_; }
  void consume(std::size_t bytes);
  const boost::asio::const_buffer* begin() const { return buffers_.data() + first_; }
  const boost::asio::const_buffer* end() const { return buffers_.data() + count_; }

 private:
  std::array<boost::asio::const_buffer, 4> buffers_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

class Wire {
 public:
  using tcp = boost::asio::ip::tcp;
  using Clock = Deadline::Clock;

  // Sets TCP_NODELAY and keepalive probes.
  Wire(tcp::socket socket, const boost::asio::any_io_executor& executor);

  enum class Ready { ready, timeout, woken, failed };
  // Until the socket is readable or writable. wake() ends it with Ready::woken.
  boost::asio::awaitable<Ready> wait(tcp::socket::wait_type what, Clock::time_point deadline);
  void wake();

  // What is there without waiting. Nothing yet: bytes 0 and open. The peer's end, or an error: not open.
  struct Read {
    std::size_t bytes = 0;
    bool open = true;
  };
  Read read_now(boost::asio::mutable_buffer into);
  // The same without consuming.
  Read peek();

  // Everything, or an Error cancelled: the client left, or did not read for `timeout`.
  boost::asio::awaitable<Result<void>> write(Pieces pieces, std::chrono::milliseconds timeout);

  void shutdown_send();
  void close();
  tcp::socket& socket() { return socket_; }

 private:
  tcp::socket socket_;
  Deadline deadline_;
  bool waiting_ = false;
  bool woken_ = false;
};

}  // namespace roost::net
