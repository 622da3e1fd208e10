#include "test_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <boost/asio/redirect_error.hpp>

namespace roost::net::testing {

Loop::Loop(int threads) : context(threads), work_(context.get_executor()) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { context.run(); });
}

void Loop::stop() {
  work_.reset();
  context.stop();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

TestServer::~TestServer() {
  if (server && server->connections() > 0) stop(0ms);
  loop.stop();
}

void TestServer::start() {
  server.emplace(loop.context, router, options);
  const Result<void> started = server->start();
  if (!started) throw std::runtime_error(started.error().message);
}

std::string RawResponse::header(std::string_view name) const {
  for (std::size_t at = 0; (at = head.find("\r\n", at)) != std::string::npos;) {
    at += 2;
    const std::size_t colon = head.find(": ", at);
    if (colon == std::string::npos || !equal_ignoring_case(std::string_view(head).substr(at, colon - at), name))
      continue;
    return head.substr(colon + 2, head.find("\r\n", colon) - colon - 2);
  }
  return {};
}

RawClient::RawClient(std::uint16_t port, int receive_buffer) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  if (receive_buffer > 0) {
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    throw std::runtime_error("cannot connect");
  }
}

bool RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

void RawClient::send_byte_by_byte(std::string_view bytes) {
  for (const char& c : bytes) send({&c, 1});
}

bool RawClient::fill() {
  pollfd entry{fd_.get(), POLLIN, 0};
  const auto patience = std::chrono::duration_cast<std::chrono::milliseconds>(kPatience);
  if (::poll(&entry, 1, static_cast<int>(patience.count())) != 1) return false;
  char piece[16 * 1024];
  const ssize_t n = ::recv(fd_.get(), piece, sizeof(piece), 0);
  if (n <= 0) return false;
  buffer_.append(piece, static_cast<std::size_t>(n));
  return true;
}

bool RawClient::need(std::size_t n) {
  while (buffer_.size() < n) {
    if (!fill()) return false;
  }
  return true;
}

std::string RawClient::take(std::size_t n) {
  std::string taken = buffer_.substr(0, n);
  buffer_.erase(0, n);
  return taken;
}

std::string RawClient::take_line() {
  while (buffer_.find("\r\n") == std::string::npos) {
    if (!fill()) return {};
  }
  return take(buffer_.find("\r\n") + 2);
}

RawResponse RawClient::receive(bool head_request) {
  RawResponse response;
  while (buffer_.find("\r\n\r\n") == std::string::npos) {
    if (!fill()) return {};
  }
  response.head = take(buffer_.find("\r\n\r\n") + 4);
  const int status = std::stoi(response.head.substr(9, 3));
  if (head_request || status == 204 || status == 304 || status < 200) {
    response.status = status;
    return response;
  }
  if (response.header("Transfer-Encoding") == "chunked") {
    while (true) {
      const std::string line = take_line();
      if (line.empty()) return {};
      const std::size_t size = std::stoul(line, nullptr, 16);
      if (!need(size + 2)) return {};
      response.body += take(size);
      take(2);
      if (size == 0) break;
    }
  } else if (!response.header("Content-Length").empty()) {
    const std::size_t size = std::stoul(response.header("Content-Length"));
    if (!need(size)) return {};
    response.body = take(size);
  } else {
    response.body = receive_to_end();
  }
  response.status = status;
  return response;
}

std::string RawClient::receive_to_end() {
  while (fill()) {
  }
  char byte = 0;
  if (::recv(fd_.get(), &byte, 1, MSG_DONTWAIT) != 0) return {};
  return take(buffer_.size());
}

std::string RawClient::receive_exactly(std::size_t n) { return need(n) ? take(n) : std::string(); }

bool RawClient::closed_by_server() {
  if (!buffer_.empty() || fill()) return false;
  char byte = 0;
  return ::recv(fd_.get(), &byte, 1, MSG_DONTWAIT) == 0;
}

std::string get(std::string_view path, std::string_view headers) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: test\r\n" + std::string(headers) + "\r\n";
}

std::string post(std::string_view path, std::string_view body, std::string_view headers) {
  return "POST " + std::string(path) + " HTTP/1.1\r\nHost: test\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n" + std::string(headers) + "\r\n" + std::string(body);
}

awaitable<void> echo(Exchange& exchange) {
  const Request& request = exchange.request();
  Response response = Response::text(200, request.method + " " + request.path + " " + request.body);
  (void)co_await exchange.send(std::move(response));
}

awaitable<void> sleep_for(Exchange& exchange, std::chrono::milliseconds time) {
  asio::steady_timer timer(exchange.executor(), time);
  boost::system::error_code ignored;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

awaitable<std::string> until_aborted(Exchange& exchange) {
  asio::steady_timer timer(exchange.executor(), kPatience);
  const auto subscription = exchange.aborted().subscribe([&timer] { timer.cancel(); });
  boost::system::error_code ignored;
  if (!exchange.aborted().requested()) {
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  co_return exchange.aborted().reason();
}

}  // namespace roost::net::testing
