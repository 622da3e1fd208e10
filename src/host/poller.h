// A thin epoll: descriptors are known by what they are and an index, not by a pointer. Belongs to the supervisor's
// thread.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cstdint>
#include <span>

#include "core/result.h"
#include "core/unique_fd.h"

namespace roost::host {

enum class Watched : std::uint8_t { listener, signals, control, channel, process, connection };

// What epoll gives back. `sequence` tells an event of a closed connection from its slot's next user (24 bits).
struct Tag {
  Watched what = Watched::listener;
  std::uint32_t index = 0;
  std::uint32_t sequence = 0;

  static constexpr std::uint32_t kSequenceMask = (1U << 24U) - 1;
  std::uint64_t packed() const {
    return std::uint64_t{static_cast<std::uint8_t>(what)} << 56U | std::uint64_t{sequence & kSequenceMask} << 32U |
           index;
  }
  static Tag unpacked(std::uint64_t data) {
    return {static_cast<Watched>(data >> 56U), static_cast<std::uint32_t>(data),
            static_cast<std::uint32_t>(data >> 32U) & kSequenceMask};
  }
};

class Poller {
 public:
  static Result<Poller> create() {
    UniqueFd fd(::epoll_create1(EPOLL_CLOEXEC));
    if (!fd) return io_error("epoll_create1", errno);
    return Poller(std::move(fd));
  }

  // False: the kernel has no room for one more watch.
  bool add(int fd, std::uint32_t events, Tag tag) { return control(EPOLL_CTL_ADD, fd, events, tag); }
  bool modify(int fd, std::uint32_t events, Tag tag) { return control(EPOLL_CTL_MOD, fd, events, tag); }
  // Before the descriptor is closed: a duplicate elsewhere would keep it watched.
  void remove(int fd) { ::epoll_ctl(fd_.get(), EPOLL_CTL_DEL, fd, nullptr); }

  // The events of one wait; valid until the next.
  std::span<const epoll_event> wait(int timeout_ms) {
    const int n = ::epoll_wait(fd_.get(), events_.data(), static_cast<int>(events_.size()), timeout_ms);
    return {events_.data(), static_cast<std::size_t>(n > 0 ? n : 0)};
  }

 private:
  explicit Poller(UniqueFd fd) : fd_(std::move(fd)) {}
  bool control(int operation, int fd, std::uint32_t events, Tag tag) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = tag.packed();
    return ::epoll_ctl(fd_.get(), operation, fd, &event) == 0;
  }

  UniqueFd fd_;
  std::array<epoll_event, 256> events_{};
};

}  // namespace roost::host
