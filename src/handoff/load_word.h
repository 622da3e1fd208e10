// The load of one worker process as one 64-bit word: so that a change of two counts (a reservation that becomes a turn)
// can never be seen half done. Pure; counter_page.h holds the words.
//
// Bits: generation 12 (63..52) | open connections 20 (51..32) | in_flight 16 (31..16) | reserved 16 (15..0).
#pragma once

#include <cstdint>
#include <optional>

namespace roost::handoff {

inline constexpr std::uint32_t kMaxGeneration = (1U << 12U) - 1;
inline constexpr std::uint32_t kMaxOpen = (1U << 20U) - 1;
inline constexpr std::uint32_t kMaxPlaces = (1U << 16U) - 1;

struct Load {
  std::uint32_t generation = 0;  // of the process that the row belongs to; 0 = nobody's
  std::uint32_t open = 0;        // connections that the worker holds
  std::uint32_t in_flight = 0;   // turns being worked on
  std::uint32_t reserved = 0;    // turns on their way to the worker

  constexpr std::uint32_t places_taken() const { return in_flight + reserved; }
  friend bool operator==(const Load&, const Load&) = default;
};

constexpr std::uint64_t pack(const Load& l) {
  return std::uint64_t{l.generation} << 52U | std::uint64_t{l.open} << 32U | std::uint64_t{l.in_flight} << 16U |
         l.reserved;
}

constexpr Load unpack(std::uint64_t word) {
  return {static_cast<std::uint32_t>(word >> 52U), static_cast<std::uint32_t>(word >> 32U) & kMaxOpen,
          static_cast<std::uint32_t>(word >> 16U) & kMaxPlaces, static_cast<std::uint32_t>(word) & kMaxPlaces};
}

// The changes a word can make. Empty: not possible from this load (no place left, or nothing to give back).
constexpr std::optional<Load> with_reservation(Load l, std::uint32_t capacity) {
  if (l.places_taken() >= capacity) return std::nullopt;
  ++l.reserved;
  return l;
}
constexpr std::optional<Load> without_reservation(Load l) {
  if (l.reserved == 0) return std::nullopt;
  --l.reserved;
  return l;
}
constexpr std::optional<Load> with_reserved_turn(Load l) {
  if (l.reserved == 0) return std::nullopt;
  --l.reserved;
  ++l.in_flight;
  return l;
}
constexpr std::optional<Load> with_turn(Load l, std::uint32_t capacity) {
  if (l.places_taken() >= capacity) return std::nullopt;
  ++l.in_flight;
  return l;
}
constexpr std::optional<Load> without_turn(Load l) {
  if (l.in_flight == 0) return std::nullopt;
  --l.in_flight;
  return l;
}
constexpr std::optional<Load> with_connection(Load l) {
  if (l.open >= kMaxOpen) return std::nullopt;
  ++l.open;
  return l;
}
constexpr std::optional<Load> without_connection(Load l) {
  if (l.open == 0) return std::nullopt;
  --l.open;
  return l;
}

}  // namespace roost::handoff
