#include "handoff/message.h"

#include <cstring>
#include <type_traits>

namespace roost::handoff {
namespace {

// Wire numbers; never given to another meaning.
enum class Kind : std::uint32_t { conn = 1, drain = 2, ready = 3, returned = 4, draining = 5, stats = 6 };

inline constexpr std::uint32_t kReserved = 1U << 0U;
inline constexpr std::uint32_t kReturnWhenIdle = 1U << 1U;

struct Wire {
  std::uint32_t kind;
  std::uint32_t small;  // claim slot, pid, why
  std::int64_t values[5];
  std::uint32_t flags;
  std::uint32_t unused;
  std::uint64_t unused2;
};
static_assert(sizeof(Wire) == kMessageBytes && std::is_trivially_copyable_v<Wire>);

struct Encoder {
  Wire& wire;
  void kind(Kind k) const { wire.kind = static_cast<std::uint32_t>(k); }

  void operator()(const Conn& m) const {
    kind(Kind::conn);
    wire.small = m.claim_slot;
    wire.values[0] = static_cast<std::int64_t>(m.ticket);
    wire.flags = (m.reserved ? kReserved : 0U) | (m.return_when_idle ? kReturnWhenIdle : 0U);
  }
  void operator()(const DrainOrder&) const { kind(Kind::drain); }
  void operator()(const Ready& m) const {
    kind(Kind::ready);
    wire.small = static_cast<std::uint32_t>(m.pid);
  }
  void operator()(const Returned& m) const {
    kind(Kind::returned);
    wire.small = static_cast<std::uint32_t>(m.why);
  }
  void operator()(const Draining&) const { kind(Kind::draining); }
  void operator()(const Stats& m) const {
    kind(Kind::stats);
    wire.values[0] = m.loop_lag_p99_us;
    wire.values[1] = m.rss_bytes;
    wire.values[2] = m.cpu_us;
    wire.values[3] = m.resident_sessions;
    wire.values[4] = m.waiting_turns;
  }
};

}  // namespace

MessageBytes encode(const Message& message) {
  Wire wire{};
  std::visit(Encoder{wire}, message);
  MessageBytes bytes{};
  std::memcpy(bytes.data(), &wire, sizeof wire);
  return bytes;
}

std::optional<Message> decode(std::span<const std::byte> bytes) {
  if (bytes.size() != kMessageBytes) return std::nullopt;
  Wire wire;
  std::memcpy(&wire, bytes.data(), sizeof wire);
  switch (static_cast<Kind>(wire.kind)) {
    case Kind::conn:
      return Conn{wire.small, static_cast<std::uint64_t>(wire.values[0]), (wire.flags & kReserved) != 0,
                  (wire.flags & kReturnWhenIdle) != 0};
    case Kind::drain:
      return DrainOrder{};
    case Kind::ready:
      return Ready{static_cast<std::int32_t>(wire.small)};
    case Kind::returned:
      if (wire.small > 1) return std::nullopt;
      return Returned{static_cast<Returned::Why>(wire.small)};
    case Kind::draining:
      return Draining{};
    case Kind::stats:
      return Stats{wire.values[0], wire.values[1], wire.values[2], wire.values[3], wire.values[4]};
  }
  return std::nullopt;
}

}  // namespace roost::handoff
