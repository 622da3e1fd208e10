#include "host/listener.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace roost::host {
namespace {

Error cannot_listen(const std::string& address, std::uint16_t port, int error_number) {
  const char* way_out = error_number == EADDRINUSE
                            ? "; stop what uses it, or choose another with PORT or --port (0 = any free one)"
                        : error_number == EACCES        ? "; ports below 1024 need a privilege"
                        : error_number == EADDRNOTAVAIL ? "; this machine has no such address (SH_HOST)"
                                                        : "";
  return {ErrorKind::bad_config,
          fmt::format("cannot listen on {}:{}: {}{}", address, port, std::strerror(error_number), way_out),
          {},
          {}};
}

std::uint16_t bound_port(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

}  // namespace

Result<Listener> listen_on(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int rc = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found); rc != 0) {
    return Error{ErrorKind::bad_config, fmt::format("SH_HOST={}: {}", address, ::gai_strerror(rc)), {}, {}};
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(found, &::freeaddrinfo);

  int last_error = EADDRNOTAVAIL;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    UniqueFd fd(::socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int on = 1;
    if (fd && ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        // Accepted sockets inherit it: a token must not wait for the one before it to be acknowledged.
        ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
        ::bind(fd.get(), at->ai_addr, at->ai_addrlen) == 0 && ::listen(fd.get(), SOMAXCONN) == 0) {
      const std::uint16_t bound = bound_port(fd.get());
      return Listener{std::move(fd), bound};
    }
    last_error = errno;
  }
  return cannot_listen(address, port, last_error);
}

}  // namespace roost::host
