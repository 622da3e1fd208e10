// What the server tests share: a server on a free loopback port in threads of its own, and a client of plain blocking
// sockets that sees every byte.
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "core/unique_fd.h"
#include "net/http_server.h"

namespace roost::net::testing {

using namespace std::chrono_literals;

// Long enough for a machine under heavy load; only a broken test waits that long.
inline constexpr auto kPatience = 30s;

// Polls until `condition` holds. False: it did not within kPatience.
template <class Condition>
bool eventually(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

// An io_context with threads; joins them at the end.
class Loop {
 public:
  explicit Loop(int threads = 1);
  ~Loop() { stop(); }
  void stop();

  // Unlike asio::use_future, for results without a default value too.
  template <class T>
  std::future<T> spawn(awaitable<T> work) {
    auto promise = std::make_shared<std::promise<T>>();
    std::future<T> future = promise->get_future();
    asio::co_spawn(context, fulfil(std::move(work), std::move(promise)), asio::detached);
    return future;
  }

  template <class T>
  T run(awaitable<T> work) {
    std::future<T> future = spawn(std::move(work));
    if (future.wait_for(kPatience) != std::future_status::ready) throw std::runtime_error("the work does not end");
    return future.get();
  }

  asio::io_context context;

 private:
  template <class T>
  static awaitable<void> fulfil(awaitable<T> work, std::shared_ptr<std::promise<T>> promise) {
    try {
      if constexpr (std::is_void_v<T>) {
        co_await std::move(work);
        promise->set_value();
      } else {
        T value = co_await std::move(work);
        promise->set_value(std::move(value));
      }
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  }

  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::vector<std::thread> threads_;
};

// Add routes and options, then start().
class TestServer {
 public:
  explicit TestServer(int threads = 1) : loop(threads) { options.connection.read_timeout = kPatience; }
  ~TestServer();
  void start();
  void stop(std::chrono::milliseconds grace) { loop.run(server->stop(grace)); }
  std::uint16_t port() const { return server->port(); }

  Router router;
  HttpServer::Options options;
  Loop loop;
  std::optional<HttpServer> server;
};

struct RawResponse {
  int status = 0;
  std::string head;
  std::string body;
  // The value of a header line; empty when absent.
  std::string header(std::string_view name) const;
};

class RawClient {
 public:
  explicit RawClient(std::uint16_t port, int receive_buffer = 0);
  // False: the server has closed the connection.
  bool send(std::string_view bytes);
  void send_byte_by_byte(std::string_view bytes);
  // One answer, its chunks joined. Status 0: the connection ended before it was complete.
  RawResponse receive(bool head_request = false);
  // Everything until the server ends the stream; nothing when it was reset or does not end.
  std::string receive_to_end();
  // The next `n` bytes as they come.
  std::string receive_exactly(std::size_t n);
  bool closed_by_server();
  void shutdown_send() { ::shutdown(fd_.get(), SHUT_WR); }
  void close() { fd_.reset(); }
  int fd() const { return fd_.get(); }

 private:
  bool fill();
  std::string take(std::size_t n);
  bool need(std::size_t n);
  std::string take_line();

  UniqueFd fd_;
  std::string buffer_;
};

// "GET /path HTTP/1.1" with Host and more header lines ("A: b\r\n").
std::string get(std::string_view path, std::string_view headers = {});
std::string post(std::string_view path, std::string_view body, std::string_view headers = {});

// Handlers.
awaitable<void> echo(Exchange& exchange);  // answers "METHOD path body"
awaitable<void> sleep_for(Exchange& exchange, std::chrono::milliseconds time);
// Until the exchange is aborted; gives the reason.
awaitable<std::string> until_aborted(Exchange& exchange);

}  // namespace roost::net::testing
