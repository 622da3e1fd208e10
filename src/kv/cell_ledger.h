// CellLedger: which sequence holds which cells, how many cells are used, promised and free, and who owns each of them.
//
// Physical identity, not equal tokens: two sequences hold the same cell only when one took it from the other. A *run*
// is a stretch of cells that were computed one after the other by one sequence; a cell is (run, position). Each
// sequence is a chain of *segments* over runs that covers [0, length) without holes.
//
// Invariants (check_integrity()):
//  1. A sequence's segments are contiguous, start at 0 and end at its length; each is listed in its run's holders, and
//     nothing else is.
//  2. used() = sum over the runs of the positions that at least one holder covers; used() + free() = total().
//  3. Unified cache: outstanding() <= free(): what is promised is there.
//
// Split cache: each sequence has a stream of its own, so sharing is a copy: it makes a new run, and total() is that of
// all streams. Engine thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "kv/types.h"

namespace roost::kv {

inline constexpr Pos kPosMax = std::numeric_limits<Pos>::max();

class CellLedger;

// Cells promised to one session or pool birth; what is left is given back in the destructor.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept;
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation() { release(); }

  std::size_t left() const { return left_; }
  // Turns `n` promised cells into used ones; call before CellLedger::append().
  void consume(std::size_t n);
  // Unified: `n` at most CellLedger::reservable().
  void extend(std::size_t n);
  void release();

 private:
  friend class CellLedger;
  Reservation(CellLedger* ledger, std::size_t n) : ledger_(ledger), left_(n) {}

  CellLedger* ledger_ = nullptr;
  std::size_t left_ = 0;
};

// "Sequence `seq` owns what it holds in [begin, end), unless an earlier claim in the list owns it."
struct Claim {
  SeqId seq;
  Pos begin;
  Pos end;
};

class CellLedger {
 public:
  // `cells` of the whole cache (unified) or of each stream (split).
  CellLedger(std::size_t cells, SeqId n_seq, bool unified);
  CellLedger(const CellLedger&) = delete;
  CellLedger& operator=(const CellLedger&) = delete;

  Pos length(SeqId seq) const { return at(seq).length; }
  // Positions at the start of `seq` that were copied from another sequence (split cache; 0 when unified).
  Pos copied(SeqId seq) const { return at(seq).copied; }
  // `n` new cells at the end of `seq`.
  void append(SeqId seq, Pos n);
  // `to` takes [begin, end) of `from`; `to` ends at `begin`.
  void share(SeqId from, SeqId to, Pos begin, Pos end);
  // `seq` gives its cells of [0, end) away and takes those of `from` instead. Unified only.
  void rebase(SeqId from, SeqId seq, Pos end);
  // Drops [length, old length).
  void truncate(SeqId seq, Pos length);

  std::size_t total() const { return total_; }
  std::size_t used() const { return used_; }
  std::size_t free() const { return total_ - used_; }
  std::size_t cells_per_sequence() const { return cells_; }  // the longest that one sequence can be
  bool unified() const { return unified_; }

  // Cells that would be in use if the sequences of `drop` were gone and `trimmed` held only [0, keep).
  std::size_t used_without(const std::set<SeqId>& drop, SeqId trimmed = kNoSeq, Pos keep = 0) const;
  // Cells that at least one of `sequences` holds.
  std::size_t held_by(const std::set<SeqId>& sequences) const;
  // Length of the common start of two sequences that is the very same cells.
  Pos shared_prefix(SeqId a, SeqId b) const;
  // Owned cells per claim, in the order of `claims`. Cells that no claim covers are counted in `unowned`.
  std::vector<std::size_t> owned(const std::vector<Claim>& claims, std::size_t* unowned = nullptr) const;

  Reservation reserve(std::size_t n);
  std::size_t outstanding() const { return outstanding_; }
  // Unified: cells neither used nor promised. Split: no bound, as each stream is bounded by itself.
  std::size_t reservable() const;

  std::string check_integrity() const;

 private:
  friend class Reservation;
  using RunId = std::uint64_t;
  struct Segment {
    RunId run;
    Pos begin, end;
  };
  struct Stream {
    std::vector<Segment> segments;
    Pos length = 0;
    Pos copied = 0;
  };
  struct Interval {
    Pos begin, end;
  };
  struct Run {
    std::map<SeqId, Interval> holders;
    Pos high = 0;           // one past the highest position ever computed in it: a position is never computed twice
    std::size_t cells = 0;  // covered by at least one holder
  };

  Stream& at(SeqId seq);
  const Stream& at(SeqId seq) const;
  static std::size_t covered(const std::vector<Interval>& intervals);
  void recount(RunId id);
  void add_segment(SeqId seq, RunId run, Pos begin, Pos end);

  const std::size_t cells_;
  const std::size_t total_;
  const bool unified_;
  std::vector<Stream> streams_;
  std::map<RunId, Run> runs_;
  RunId next_run_ = 0;
  std::size_t used_ = 0;
  std::size_t outstanding_ = 0;
};

}  // namespace roost::kv
