#include "kv/cell_ledger.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace roost::kv {

Reservation::Reservation(Reservation&& other) noexcept
    : ledger_(std::exchange(other.ledger_, nullptr)), left_(std::exchange(other.left_, 0)) {}

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this != &other) {
    release();
    ledger_ = std::exchange(other.ledger_, nullptr);
    left_ = std::exchange(other.left_, 0);
  }
  return *this;
}

void Reservation::consume(std::size_t n) {
  ROOST_CHECK(ledger_ != nullptr && n <= left_, "more cells are used than were promised");
  left_ -= n;
  ledger_->outstanding_ -= n;
}

void Reservation::extend(std::size_t n) {
  ROOST_CHECK(ledger_ != nullptr && n <= ledger_->reservable(), "a promise that cannot be kept");
  left_ += n;
  ledger_->outstanding_ += n;
}

void Reservation::release() {
  if (ledger_ != nullptr) ledger_->outstanding_ -= left_;
  ledger_ = nullptr;
  left_ = 0;
}

CellLedger::CellLedger(std::size_t cells, SeqId n_seq, bool unified)
    : cells_(cells),
      total_(unified ? cells : cells * static_cast<std::size_t>(n_seq)),
      unified_(unified),
      streams_(static_cast<std::size_t>(n_seq)) {}

CellLedger::Stream& CellLedger::at(SeqId seq) {
  ROOST_CHECK(seq >= 0 && static_cast<std::size_t>(seq) < streams_.size());
  return streams_[static_cast<std::size_t>(seq)];
}
const CellLedger::Stream& CellLedger::at(SeqId seq) const { return const_cast<CellLedger*>(this)->at(seq); }

std::size_t CellLedger::covered(const std::vector<Interval>& intervals) {
  auto sorted = intervals;
  std::sort(sorted.begin(), sorted.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::size_t cells = 0;
  Pos reached = 0;
  for (const Interval& i : sorted) {
    const Pos begin = std::max(i.begin, reached);
    if (i.end > begin) cells += static_cast<std::size_t>(i.end - begin);
    reached = std::max(reached, i.end);
  }
  return cells;
}

void CellLedger::recount(RunId id) {
  const auto it = runs_.find(id);
  std::vector<Interval> intervals;
  intervals.reserve(it->second.holders.size());
  for (const auto& [seq, interval] : it->second.holders) intervals.push_back(interval);
  const std::size_t cells = covered(intervals);
  used_ = used_ - it->second.cells + cells;
  it->second.cells = cells;
  if (it->second.holders.empty()) runs_.erase(it);
}

void CellLedger::add_segment(SeqId seq, RunId run, Pos begin, Pos end) {
  Stream& s = at(seq);
  ROOST_CHECK(begin == s.length && end > begin);
  auto [holder, added] = runs_[run].holders.try_emplace(seq, Interval{begin, end});
  if (added) {
    s.segments.push_back({run, begin, end});
  } else {
    ROOST_CHECK(holder->second.end == begin && s.segments.back().run == run, "a sequence holds a run in one piece");
    holder->second.end = end;
    s.segments.back().end = end;
  }
  s.length = end;
}

void CellLedger::append(SeqId seq, Pos n) {
  if (n == 0) return;
  Stream& s = at(seq);
  const Pos begin = s.length;
  RunId run = next_run_;
  // The last run goes on only where nobody has computed yet; elsewhere the new cells are others than those once shared.
  if (!s.segments.empty() && runs_.at(s.segments.back().run).high == begin) {
    run = s.segments.back().run;
  } else {
    ++next_run_;
  }
  add_segment(seq, run, begin, begin + n);
  runs_.at(run).high = begin + n;
  recount(run);
  ROOST_CHECK(used_ <= total_ && (unified_ || static_cast<std::size_t>(s.length) <= cells_),
              "more cells than there are");
}

void CellLedger::share(SeqId from, SeqId to, Pos begin, Pos end) {
  ROOST_CHECK(from != to && begin <= end && end <= length(from) && length(to) == begin);
  if (begin == end) return;
  if (!unified_) {
    ROOST_CHECK(begin == 0, "a split cache copies from the start");
    append(to, end);
    at(to).copied = end;
    return;
  }
  const auto segments = at(from).segments;  // a copy: add_segment() may grow the vector that it is in
  for (const Segment& segment : segments) {
    const Pos b = std::max(begin, segment.begin);
    const Pos e = std::min(end, segment.end);
    if (b >= e) continue;
    add_segment(to, segment.run, b, e);
    recount(segment.run);
  }
}

void CellLedger::rebase(SeqId from, SeqId seq, Pos end) {
  ROOST_CHECK(unified_ && from != seq && end <= length(from) && end <= length(seq));
  if (shared_prefix(from, seq) >= end) return;
  Stream& s = at(seq);
  const auto old = std::exchange(s.segments, {});
  const Pos old_length = std::exchange(s.length, 0);
  for (const Segment& segment : old) runs_.at(segment.run).holders.erase(seq);
  share(from, seq, 0, end);
  for (const Segment& segment : old) {
    const Pos begin = std::max(segment.begin, end);
    if (begin >= segment.end) continue;
    // What is of the run that the new front ends in stays one segment.
    if (s.segments.back().run == segment.run) {
      s.segments.back().end = segment.end;
    } else {
      s.segments.push_back({segment.run, begin, segment.end});
    }
    runs_.at(segment.run).holders[seq] = {s.segments.back().begin, segment.end};
  }
  s.length = old_length;
  for (const Segment& segment : old) recount(segment.run);
}

void CellLedger::truncate(SeqId seq, Pos length) {
  Stream& s = at(seq);
  ROOST_CHECK(length >= 0 && length <= s.length);
  while (!s.segments.empty() && s.segments.back().end > length) {
    Segment& last = s.segments.back();
    const RunId run = last.run;
    auto& holders = runs_.at(run).holders;
    if (last.begin >= length) {
      holders.erase(seq);
      s.segments.pop_back();
    } else {
      last.end = length;
      holders.at(seq).end = length;
    }
    recount(run);
  }
  s.length = length;
  s.copied = std::min(s.copied, length);
}

std::size_t CellLedger::used_without(const std::set<SeqId>& drop, SeqId trimmed, Pos keep) const {
  std::size_t cells = 0;
  std::vector<Interval> kept;
  for (const auto& [id, run] : runs_) {
    kept.clear();
    for (const auto& [seq, interval] : run.holders) {
      if (drop.contains(seq)) continue;
      const Pos end = seq == trimmed ? std::min(interval.end, keep) : interval.end;
      if (end > interval.begin) kept.push_back({interval.begin, end});
    }
    cells += covered(kept);
  }
  return cells;
}

std::size_t CellLedger::held_by(const std::set<SeqId>& sequences) const {
  std::size_t cells = 0;
  std::vector<Interval> kept;
  for (const auto& [id, run] : runs_) {
    kept.clear();
    for (const auto& [seq, interval] : run.holders) {
      if (sequences.contains(seq)) kept.push_back(interval);
    }
    cells += covered(kept);
  }
  return cells;
}

Pos CellLedger::shared_prefix(SeqId a, SeqId b) const {
  const auto& left = at(a).segments;
  const auto& right = at(b).segments;
  Pos shared = 0;
  for (std::size_t i = 0; i < left.size() && i < right.size(); ++i) {
    if (left[i].run != right[i].run || left[i].begin != right[i].begin) break;
    shared = std::min(left[i].end, right[i].end);
    if (left[i].end != right[i].end) break;
  }
  return shared;
}

std::vector<std::size_t> CellLedger::owned(const std::vector<Claim>& claims, std::size_t* unowned) const {
  std::vector<std::size_t> result(claims.size(), 0);
  std::map<SeqId, std::vector<std::size_t>> by_seq;
  for (std::size_t i = 0; i < claims.size(); ++i) by_seq[claims[i].seq].push_back(i);
  std::size_t nobody = 0;
  std::vector<std::size_t> candidates;
  std::vector<Interval> open, next;
  for (const auto& [id, run] : runs_) {
    candidates.clear();
    open.clear();
    for (const auto& [seq, interval] : run.holders) {
      open.push_back(interval);
      if (const auto it = by_seq.find(seq); it != by_seq.end()) {
        candidates.insert(candidates.end(), it->second.begin(), it->second.end());
      }
    }
    // The union of the holders, then each claim in order takes its part out of what is still open.
    std::sort(open.begin(), open.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    next.clear();
    for (const Interval& i : open) {
      if (!next.empty() && i.begin <= next.back().end) {
        next.back().end = std::max(next.back().end, i.end);
      } else {
        next.push_back(i);
      }
    }
    open = next;
    std::sort(candidates.begin(), candidates.end());
    for (const std::size_t c : candidates) {
      if (open.empty()) break;
      const Interval held = run.holders.at(claims[c].seq);
      const Interval mine{std::max(held.begin, claims[c].begin), std::min(held.end, claims[c].end)};
      if (mine.begin >= mine.end) continue;
      next.clear();
      for (const Interval& i : open) {
        const Pos b = std::max(i.begin, mine.begin);
        const Pos e = std::min(i.end, mine.end);
        if (b >= e) {
          next.push_back(i);
          continue;
        }
        result[c] += static_cast<std::size_t>(e - b);
        if (i.begin < b) next.push_back({i.begin, b});
        if (e < i.end) next.push_back({e, i.end});
      }
      open = next;
    }
    for (const Interval& i : open) nobody += static_cast<std::size_t>(i.end - i.begin);
  }
  if (unowned != nullptr) *unowned = nobody;
  return result;
}

Reservation CellLedger::reserve(std::size_t n) {
  Reservation r(this, 0);
  r.extend(n);
  return r;
}

std::size_t CellLedger::reservable() const {
  if (!unified_) return std::numeric_limits<std::size_t>::max();
  return free() - outstanding_;
}

std::string CellLedger::check_integrity() const {
  std::size_t holders = 0;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const auto seq = static_cast<SeqId>(i);
    Pos reached = 0;
    for (const Segment& segment : streams_[i].segments) {
      if (segment.begin != reached || segment.end <= segment.begin)
        return "ledger: a hole in sequence " + std::to_string(seq);
      reached = segment.end;
      const auto run = runs_.find(segment.run);
      if (run == runs_.end()) return "ledger: a segment of an unknown run";
      const auto held = run->second.holders.find(seq);
      if (held == run->second.holders.end() || held->second.begin != segment.begin || held->second.end != segment.end) {
        return "ledger: segment and holder differ in sequence " + std::to_string(seq);
      }
      if (segment.end > run->second.high) return "ledger: a cell that was never computed";
    }
    if (reached != streams_[i].length) return "ledger: the length of sequence " + std::to_string(seq) + " is wrong";
    holders += streams_[i].segments.size();
  }
  std::size_t listed = 0;
  for (const auto& [id, run] : runs_) listed += run.holders.size();
  if (listed != holders) return "ledger: a holder without a segment";
  if (used_without({}) != used_) return "ledger: the count of used cells is wrong";
  if (used_ > total_) return "ledger: more cells used than there are";
  if (unified_ && outstanding_ > free()) return "ledger: more cells promised than free";
  return {};
}

}  // namespace roost::kv
