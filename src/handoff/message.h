// The messages between supervisor and worker: fixed 64-byte records, one a datagram. A socket, where one travels, rides
// beside its record (channel.h). Both ends run the same binary or two neighbouring versions of it: a kind that this
// side does not know is logged and ignored.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

namespace roost::handoff {

// supervisor -> worker, with a socket: a connection to serve, once the claim is won.
struct Conn {
  std::uint32_t claim_slot = 0;
  std::uint64_t ticket = 0;
  bool reserved = false;          // a place is reserved for the turn at its head
  bool return_when_idle = false;  // routing scope `request`: give it back between its requests
  friend bool operator==(const Conn&, const Conn&) = default;
};

// supervisor -> worker: finish what runs, then exit.
struct DrainOrder {
  friend bool operator==(const DrainOrder&, const DrainOrder&) = default;
};

// worker -> supervisor: serving; sockets may come.
struct Ready {
  std::int32_t pid = 0;
  friend bool operator==(const Ready&, const Ready&) = default;
};

// worker -> supervisor, with a socket: route it again. Nothing of its next request has been read.
struct Returned {
  enum class Why : std::uint8_t { idle = 0, at_capacity = 1 };
  Why why = Why::idle;
  friend bool operator==(const Returned&, const Returned&) = default;
};

// worker -> supervisor: send no more sockets; it leaves by itself.
struct Draining {
  friend bool operator==(const Draining&, const Draining&) = default;
};

// worker -> supervisor, every stats interval. Advisory: no decision about a place depends on it. -1 = not measured.
struct Stats {
  std::int64_t loop_lag_p99_us = -1;
  std::int64_t rss_bytes = -1;
  std::int64_t cpu_us = -1;
  std::int64_t resident_sessions = -1;
  std::int64_t waiting_turns = -1;  // read from a kept-alive connection, waiting for a place
  friend bool operator==(const Stats&, const Stats&) = default;
};

using Message = std::variant<Conn, DrainOrder, Ready, Returned, Draining, Stats>;

inline constexpr std::size_t kMessageBytes = 64;
using MessageBytes = std::array<std::byte, kMessageBytes>;

MessageBytes encode(const Message& message);
// Empty: a wrong size, an unknown kind or a value out of range.
std::optional<Message> decode(std::span<const std::byte> bytes);

}  // namespace roost::handoff
