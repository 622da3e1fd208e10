// A blocking HTTP client of the host's tests, with a deadline on everything; and eventually(), which polls.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "core/unique_fd.h"

namespace roost::host {

inline constexpr auto kPatience = std::chrono::seconds(30);  // generous: the machine may be busy

inline bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds patience = kPatience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

struct Answer {
  int status = 0;
  std::string head;
  std::string body;

  bool has_header(std::string_view line) const { return head.find(line) != std::string::npos; }
};

class Client {
 public:
  explicit Client(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }

  bool connected() const { return connected_; }
  int fd() const { return fd_.get(); }
  void close() { fd_.reset(); }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }

  // One answer with a Content-Length. Empty: the connection ended, or nothing came in time.
  std::optional<Answer> read_answer() {
    if (!read_until("\r\n\r\n")) return std::nullopt;
    Answer answer;
    answer.head = buffer_.substr(0, buffer_.find("\r\n\r\n") + 4);
    buffer_.erase(0, answer.head.size());
    answer.status = std::atoi(answer.head.c_str() + 9);
    const std::size_t at = answer.head.find("Content-Length: ");
    if (at == std::string::npos) return answer;
    const auto length = static_cast<std::size_t>(std::atol(answer.head.c_str() + at + 16));
    while (buffer_.size() < length) {
      if (!read_some()) return std::nullopt;
    }
    answer.body = buffer_.substr(0, length);
    buffer_.erase(0, length);
    return answer;
  }

  bool read_until(std::string_view text) {
    while (buffer_.find(text) == std::string::npos) {
      if (!read_some()) return false;
    }
    return true;
  }
  // Everything until the peer closes; empty when it does not in time.
  std::optional<std::string> read_to_end() {
    while (read_some()) {
    }
    if (!ended_) return std::nullopt;
    return buffer_;
  }
  const std::string& buffered() const { return buffer_; }

 private:
  bool read_some() {
    pollfd entry{fd_.get(), POLLIN, 0};
    if (::poll(&entry, 1, 30'000) <= 0) return false;
    char bytes[4096];
    const ssize_t n = ::recv(fd_.get(), bytes, sizeof bytes, 0);
    if (n <= 0) {
      ended_ = true;
      return false;
    }
    buffer_.append(bytes, static_cast<std::size_t>(n));
    return true;
  }

  UniqueFd fd_;
  bool connected_ = false;
  bool ended_ = false;
  std::string buffer_;
};

inline std::string turn_request(std::string_view body = "hello", std::string_view headers = "") {
  return "POST /turn HTTP/1.1\r\nHost: t\r\n" + std::string(headers) +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}
inline std::string get_request(std::string_view path) {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: t\r\n\r\n";
}

// One request on a connection of its own.
inline std::optional<Answer> ask(std::uint16_t port, std::string_view request) {
  Client client(port);
  if (!client.connected() || !client.send(request)) return std::nullopt;
  return client.read_answer();
}

}  // namespace roost::host
