// The connections that the supervisor holds: a slab of records, each in exactly one stage. A stage is a FIFO, and all
// of a stage's records have the same time to live, so the front is always the next to expire.
//
// Invariants: a record is free or in exactly one stage; `since` does not decrease along a stage; a record owns its
// descriptor. Allocates only when more connections are held at once than ever before. Belongs to the supervisor's
// thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/clock.h"

namespace roost::host {

enum class Stage : std::uint8_t {
  free,
  idle,       // nothing of a request has come
  head,       // part of a head has come
  unclaimed,  // handed to a worker that has not claimed it yet; this is the duplicate
  blocked,    // its head is complete, and every channel is full
  refused,    // its refusal is written; waiting for the peer to close
};
inline constexpr std::size_t kStages = 6;
inline constexpr std::uint32_t kNoConnection = ~0U;

struct Connection {
  int fd = -1;
  Stage stage = Stage::free;
  bool watched = false;    // registered with the poller
  bool low_water = false;  // SO_RCVLOWAT is not 1
  bool turn = false;
  bool reserved = false;  // holds a place of `worker`
  std::uint8_t handoffs = 0;
  std::uint32_t sequence = 0;
  std::uint32_t worker = 0;
  std::uint32_t claim_slot = 0;
  std::uint32_t bytes = 0;  // head: peeked so far; refused: drained so far
  std::uint32_t previous = kNoConnection;
  std::uint32_t next = kNoConnection;
  std::uint64_t ticket = 0;
  std::uint64_t session = 0;  // routing key; 0 = none
  TimePoint since{};          // entered its stage
};

class ConnectionTable {
 public:
  ConnectionTable() = default;
  ConnectionTable(const ConnectionTable&) = delete;
  ~ConnectionTable();

  // Takes over the descriptor; the record enters stage idle.
  std::uint32_t add(int fd, TimePoint now);
  // Closes the descriptor and frees the record.
  void drop(std::uint32_t index);
  void move(std::uint32_t index, Stage to, TimePoint now);

  Connection& at(std::uint32_t index) { return records_[index]; }
  // Is `index` still the record that `sequence` named?
  bool is_current(std::uint32_t index, std::uint32_t sequence) const;
  // The oldest of a stage; kNoConnection when none.
  std::uint32_t front(Stage stage) const { return list(stage).first; }
  std::size_t count(Stage stage) const { return list(stage).count; }
  std::size_t held() const { return held_; }

  // Aborts when an invariant is broken.
  void check_integrity() const;

 private:
  struct List {
    std::uint32_t first = kNoConnection;
    std::uint32_t last = kNoConnection;
    std::size_t count = 0;
  };
  List& list(Stage stage) { return lists_[static_cast<std::size_t>(stage)]; }
  const List& list(Stage stage) const { return lists_[static_cast<std::size_t>(stage)]; }
  void unlink(std::uint32_t index);
  void append(std::uint32_t index, Stage stage);

  std::vector<Connection> records_;
  std::array<List, kStages> lists_{};
  std::size_t held_ = 0;
};

}  // namespace roost::host
