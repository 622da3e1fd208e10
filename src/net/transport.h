// Transport: one connection of the HTTP client, plain TCP or TLS. Internal to net/. Lives on one executor, one
// operation at a time; close() may come at any moment and ends the operation under way.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "core/result.h"
#include "net/deadline.h"
#include "net/http_client.h"

namespace roost::net {

class Transport {
 public:
  // `tls` is null for plain http; else it lives longer than the Transport.
  Transport(const asio::any_io_executor& executor, Url origin, asio::ssl::context* tls);
  ~Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  // Errors: timeout, unavailable. After an error the Transport is closed, except when the server did not take the whole
  // request: its answer may still be there to read.
  awaitable<Result<void>> connect(std::chrono::milliseconds timeout);
  awaitable<Result<void>> write(std::string_view head, std::string_view body, std::chrono::milliseconds timeout);
  // 0 bytes = the server has ended the stream.
  awaitable<Result<std::size_t>> read_some(asio::mutable_buffer into, std::chrono::milliseconds timeout);

  // Has the server closed this idle connection, or sent something nobody asked for? Consumes nothing.
  bool stale();
  void close();

 private:
  using tcp = asio::ip::tcp;
  struct Lookup;

  void arm(Deadline::Clock::time_point at);
  // Ends an operation: the Error to report, if any.
  Result<void> conclude(const boost::system::error_code& ec, std::string_view what);
  awaitable<Result<std::vector<tcp::endpoint>>> look_up();
  awaitable<Result<void>> connect_any(const std::vector<tcp::endpoint>& endpoints);
  awaitable<Result<void>> handshake();
  std::string place() const;

  const asio::any_io_executor executor_;
  const Url origin_;
  tcp::socket socket_;
  std::unique_ptr<asio::ssl::stream<tcp::socket&>> tls_;
  std::shared_ptr<Lookup> lookup_;  // while a name is being looked up
  Deadline deadline_;
  bool expired_ = false;
  bool closed_ = false;
};

}  // namespace roost::net
