// Supervisor: accepting, looking at heads, refusing.
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "core/log.h"
#include "handoff/peek.h"
#include "host/limits.h"
#include "host/supervisor.h"

namespace roost::host {
namespace {

constexpr int kAcceptsPerWake = 64;
constexpr auto kAcceptPause = std::chrono::milliseconds(100);  // when out of descriptors

// One buffer for the loop's thread: a head is looked at and forgotten.
std::span<char> peek_buffer() {
  thread_local std::array<char, handoff::kPeekBytes> buffer;
  return buffer;
}

}  // namespace

void Supervisor::accept_connections() {
  for (int i = 0; i < kAcceptsPerWake; ++i) {
    if (connections_.held() >= options_.max_connections || connections_.count(Stage::blocked) > 0) return;
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      view_.counters.accepted.fetch_add(1, std::memory_order_relaxed);
      adopt(fd, false);
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // The backlog keeps them; level-triggered, so the listener must not be watched meanwhile.
      log::warn("accepting pauses: out of descriptors", {{"held", connections_.held()}});
      accept_again_ = now_ + kAcceptPause;
    }
    return;
  }
}

void Supervisor::adopt(int fd, bool returned) {
  const std::uint32_t index = connections_.add(fd, now_);
  // The worker may have waited for more of a head.
  connections_.at(index).low_water = returned;
  look(index, 0);
}

void Supervisor::on_connection(std::uint32_t index, std::uint32_t events) {
  switch (connections_.at(index).stage) {
    case Stage::idle:
    case Stage::head:
      look(index, events);
      break;
    case Stage::refused:
      read_lingering(index);
      break;
    case Stage::free:
    case Stage::unclaimed:
    case Stage::blocked:
      break;
  }
}

// What has come of the next request's head decides: wait, or route.
void Supervisor::look(std::uint32_t index, std::uint32_t events) {
  Connection& c = connections_.at(index);
  const std::span<char> buffer = peek_buffer();
  ssize_t size = -1;
  do {
    size = ::recv(c.fd, buffer.data(), buffer.size(), MSG_PEEK | MSG_DONTWAIT);
  } while (size < 0 && errno == EINTR);
  if (size == 0 || (size < 0 && errno != EAGAIN)) {
    close(index);
    return;
  }
  if (size < 0) {
    if (draining_) {
      close(index);
      return;
    }
    if (c.low_water) set_low_water(index, 1);
    watch(index, Stage::idle);
    return;
  }
  if (draining_) {
    refuse(index, ErrorKind::shutting_down);
    return;
  }
  const auto bytes = static_cast<std::uint32_t>(size);
  const handoff::PeekedHead head = handoff::peek_head({buffer.data(), bytes});
  const bool no_more_comes = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0U;
  if (!head.complete && bytes < buffer.size() && !no_more_comes) {
    c.bytes = bytes;
    set_low_water(index, bytes + 1);
    watch(index, Stage::head);
    return;
  }
  if (!head.complete) view_.counters.head_truncations.fetch_add(1, std::memory_order_relaxed);
  c.turn = head.complete && head.turn;
  c.session = head.complete ? session_key(head.session_id) : 0;
  route(index);
}

void Supervisor::watch(std::uint32_t index, Stage stage) {
  Connection& c = connections_.at(index);
  // A head's time runs from its first byte: more bytes do not extend it.
  if (c.stage != stage) connections_.move(index, stage, now_);
  if (c.watched) return;
  c.watched = poller_.add(c.fd, EPOLLIN | EPOLLRDHUP, {Watched::connection, index, c.sequence});
  if (!c.watched) close(index);
}

void Supervisor::unwatch(std::uint32_t index) {
  Connection& c = connections_.at(index);
  if (c.watched) poller_.remove(c.fd);
  c.watched = false;
}

// How many bytes make the socket readable: a partial head would wake a level-triggered poll for ever.
void Supervisor::set_low_water(std::uint32_t index, std::uint32_t bytes) {
  Connection& c = connections_.at(index);
  const int value = static_cast<int>(bytes);
  ::setsockopt(c.fd, SOL_SOCKET, SO_RCVLOWAT, &value, sizeof value);
  c.low_water = bytes != 1;
}

void Supervisor::close(std::uint32_t index) {
  unwatch(index);
  connections_.drop(index);
}

// Answers here: write, half-close, then wait until the peer has read it. Closing at once with unread bytes would reset
// the connection and could take the answer with it.
void Supervisor::refuse(std::uint32_t index, ErrorKind kind) {
  Connection& c = connections_.at(index);
  const std::string& answer = kind == ErrorKind::overloaded ? overloaded_ : shutting_down_;
  // A new connection's send buffer holds it; on a returned one whose buffer is full the peer does not read anyway.
  const ssize_t written = ::send(c.fd, answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (written != static_cast<ssize_t>(answer.size()) || ::shutdown(c.fd, SHUT_WR) != 0) {
    close(index);
    return;
  }
  if (c.low_water) set_low_water(index, 1);
  c.bytes = 0;
  watch(index, Stage::refused);
  if (connections_.is_current(index, c.sequence)) read_lingering(index);
}

void Supervisor::read_lingering(std::uint32_t index) {
  Connection& c = connections_.at(index);
  const std::span<char> buffer = peek_buffer();
  while (true) {
    const ssize_t size = ::recv(c.fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return;
    if (size > 0) c.bytes += static_cast<std::uint32_t>(size);
    if (size > 0 && c.bytes < kRefusedBytes) continue;
    close(index);
    return;
  }
}

void Supervisor::expire_intake() {
  const auto overdue = [&](Stage stage, Duration life) {
    const std::uint32_t front = connections_.front(stage);
    return front != kNoConnection && now_ >= connections_.at(front).since + life ? front : kNoConnection;
  };
  std::uint32_t index = kNoConnection;
  while ((index = overdue(Stage::idle, options_.keepalive)) != kNoConnection) close(index);
  while ((index = overdue(Stage::refused, options_.linger)) != kNoConnection) close(index);
  while ((index = overdue(Stage::head, options_.head_timeout)) != kNoConnection) {
    // A worker reads it as slowly as it comes; it holds no place until its head is complete there.
    view_.counters.head_truncations.fetch_add(1, std::memory_order_relaxed);
    connections_.at(index).turn = false;
    connections_.at(index).session = 0;
    route(index);
  }
  while ((index = overdue(Stage::blocked, options_.claim_timeout)) != kNoConnection) {
    view_.counters.handoff_failures.fetch_add(1, std::memory_order_relaxed);
    pool_.loads();
    refuse_overloaded(index);
  }
}

}  // namespace roost::host
