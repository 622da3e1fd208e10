// The memory that supervisor and workers share (a memfd): one row of exact counts per worker process, and the claim
// words that make a hand-off safe.
//
// Invariants
//   1. A row's counts change only by compare-and-swap of its whole word, and only for the generation that owns the row:
//   what a
//      retired process still tries to write has no effect.
//   2. reserved + in_flight never exceeds the row's capacity (S). A change that would is refused; a word above it,
//   should it
//      ever be seen, is counted (over_admissions).
//   3. A claim goes open -> claimed (by the worker), open -> declined (by the worker) or open -> closed (taken back by
//   the
//      supervisor), by one compare-and-swap, for one ticket: two readers of a socket are impossible, also when the slot
//      has been used again since.
//
// Threads: every operation is lock-free and may be called from any thread of any process that maps the page.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "core/result.h"
#include "core/unique_fd.h"
#include "handoff/load_word.h"

namespace roost::handoff {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "shared words need lock-free atomics");

struct RowMemory;
struct PageHeader;

// One worker process's row. A light handle: copy freely, but not beyond the page's life. Default = nobody's.
class Row {
 public:
  Row() = default;

  // Has the row not been retired since?
  bool owned() const;
  // The counts; all zero once retired.
  Load load() const;
  std::uint32_t capacity() const;
  std::uint32_t generation() const { return generation_; }

  // Supervisor: takes a place for a turn that is on its way. False: no place left (or retired).
  bool try_reserve() const;
  // Gives it back: the hand-off failed, or the connection died before its turn.
  bool release_reservation() const;
  // Worker: the reservation becomes a turn in flight.
  bool start_reserved() const;
  // Worker: a turn without a reservation. False: at capacity.
  bool try_start() const;
  bool end_turn() const;
  bool open_connection() const;
  bool close_connection() const;

  // When the last turn ended, on the steady clock; the epoch before the first. Advisory: breaks ties of equal load.
  std::chrono::steady_clock::time_point idle_since() const;

 private:
  friend class CounterPage;
  Row(RowMemory* memory, PageHeader* header, std::uint32_t generation)
      : memory_(memory), header_(header), generation_(generation) {}
  template <class Change>
  bool change(Change&& next) const;

  RowMemory* memory_ = nullptr;
  PageHeader* header_ = nullptr;
  std::uint32_t generation_ = 0;
};

enum class ClaimState : std::uint8_t { closed = 0, open = 1, claimed = 2, declined = 3 };

class CounterPage {
 public:
  static constexpr std::uint32_t kMaxRows = 4096;
  static constexpr std::uint32_t kMaxClaims = 1U << 16U;

  // A new page of nobody's rows and closed claims.
  static Result<CounterPage> create(std::uint32_t rows, std::uint32_t claims);
  // The page behind an inherited descriptor; bad_config when it is not one.
  static Result<CounterPage> open(UniqueFd fd);

  CounterPage(CounterPage&& other) noexcept;
  CounterPage& operator=(CounterPage&&) = delete;
  ~CounterPage();

  int fd() const { return fd_.get(); }
  std::uint32_t rows() const;
  std::uint32_t claims() const;

  // Gives a free row to a new process: a new generation, counts zero. Supervisor only.
  Row assign(std::uint32_t row, std::uint32_t capacity) const;
  // Takes it back: later writes of that process have no effect. Supervisor only.
  void retire(const Row& row) const;
  // The row as its worker sees it. `row` and `generation` come from the environment: an Error when they do not fit the
  // page.
  Result<Row> attach(std::uint32_t row, std::uint32_t generation) const;

  // Supervisor: opens claim `slot` under a ticket that is never used again.
  void open_claim(std::uint32_t slot, std::uint64_t ticket) const;
  // Worker: true = the socket is this worker's to read. False: taken back meanwhile, or an unknown slot.
  bool claim(std::uint32_t slot, std::uint64_t ticket) const;
  // Worker: cannot serve it (its descriptor did not arrive); the supervisor gives it to another at once.
  bool decline(std::uint32_t slot, std::uint64_t ticket) const;
  // Supervisor: takes an open claim back. False: it has been claimed or declined.
  bool take_back(std::uint32_t slot, std::uint64_t ticket) const;
  ClaimState claim_state(std::uint32_t slot, std::uint64_t ticket) const;

  // Words seen above their capacity since the page was made; 0 unless an invariant is broken.
  std::uint64_t over_admissions() const;
  // Aborts when a row breaks invariant 2 now.
  void check_integrity() const;

 private:
  CounterPage(UniqueFd fd, void* memory, std::size_t bytes) : fd_(std::move(fd)), memory_(memory), bytes_(bytes) {}
  PageHeader* header() const { return static_cast<PageHeader*>(memory_); }
  RowMemory* row_at(std::uint32_t row) const;
  std::atomic<std::uint64_t>* claim_at(std::uint32_t slot) const;
  bool change_claim(std::uint32_t slot, std::uint64_t ticket, ClaimState to) const;

  UniqueFd fd_;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace roost::handoff
