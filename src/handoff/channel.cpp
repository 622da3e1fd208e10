#include "handoff/channel.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>

namespace roost::handoff {
namespace {

// Room for more descriptors than a peer of ours ever sends: what comes too much is closed, not leaked.
constexpr std::size_t kMaxSockets = 8;

// Every descriptor of a received message, so that none is lost whatever the sender did.
void collect_sockets(msghdr& header, Received& out, std::size_t& count) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t sockets = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < sockets; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof fd);
      ++count;
      UniqueFd owned(fd);
      if (!out.socket) out.socket = std::move(owned);
    }
  }
}

}  // namespace

Result<std::pair<UniqueFd, UniqueFd>> Channel::make() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return io_error("socketpair for a worker's channel", errno);
  }
  return std::pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

Result<Channel> Channel::adopt(UniqueFd fd) {
  int type = 0;
  socklen_t size = sizeof type;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET) {
    return Error{ErrorKind::bad_config, "the inherited descriptor is not a hand-off channel", {}, {}};
  }
  if (::fcntl(fd.get(), F_SETFD, FD_CLOEXEC) != 0) return io_error("the inherited channel", errno);
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) != 0) return io_error("the inherited channel", errno);
  return Channel(std::move(fd));
}

SendStatus Channel::send(const Message& message, int socket) {
  MessageBytes bytes = encode(message);
  iovec data{bytes.data(), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (socket >= 0) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &socket, sizeof socket);
  }
  while (true) {
    if (::sendmsg(fd_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return SendStatus::sent;
    switch (errno) {
      case EINTR:
        continue;
      // Too many descriptors under way, or no memory for the record: both pass when the other side has read on.
      case EAGAIN:
      case ETOOMANYREFS:
      case ENOBUFS:
      case ENOMEM:
        return SendStatus::full;
      default:
        return SendStatus::closed;
    }
  }
}

Received Channel::receive() {
  Received out;
  std::array<std::byte, kMessageBytes + 1> bytes;  // one more: a longer record is seen to be longer
  iovec data{bytes.data(), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxSockets * sizeof(int))> control;
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();

  ssize_t size = -1;
  do {
    size = ::recvmsg(fd_.get(), &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (size < 0 && errno == EINTR);
  if (size < 0) {
    out.status = errno == EAGAIN ? Received::Status::empty : Received::Status::closed;
    return out;
  }
  std::size_t sockets = 0;
  collect_sockets(header, out, sockets);
  if (size == 0 && sockets == 0 && (header.msg_flags & MSG_CTRUNC) == 0) {
    out.status = Received::Status::closed;  // our records are never empty
    return out;
  }
  out.socket_lost = (header.msg_flags & MSG_CTRUNC) != 0;
  out.message = decode(std::span(bytes.data(), static_cast<std::size_t>(size)));
  if (!out.message || sockets > 1) {
    out.message.reset();
    out.socket.reset();
    out.status = Received::Status::ignored;
    return out;
  }
  out.status = Received::Status::message;
  return out;
}

}  // namespace roost::handoff
