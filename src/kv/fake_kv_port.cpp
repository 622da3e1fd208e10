#include "kv/fake_kv_port.h"

#include <algorithm>
#include <map>

#include "core/check.h"

namespace roost::kv {
namespace {

std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30U;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27U;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}

bool inside(Pos pos, Pos begin, Pos end) { return pos >= begin && (end < 0 || pos < end); }

}  // namespace

FakeKvPort::FakeKvPort(KvTraits traits) : traits_(traits) {
  const auto streams = traits.unified ? std::size_t{1} : static_cast<std::size_t>(traits.n_seq);
  base_.streams.assign(streams, Stream(traits.cells));
  base_.heads.assign(streams, 0);
  if (traits.swa_window > 0) window_ = base_;
  if (traits.recurrent) states_.resize(static_cast<std::size_t>(traits.n_seq));
}

void FakeKvPort::copy(Cache& cache, SeqId from, SeqId to, Pos begin, Pos end) const {
  const auto s0 = stream_of(from);
  const auto s1 = stream_of(to);
  if (s0 != s1) {
    ROOST_CHECK(begin == 0 && (end < 0 || end > highest(cache, from)), "only whole streams are copied");
    cache.streams[s1] = cache.streams[s0];
    cache.heads[s1] = cache.heads[s0];
    for (Cell& cell : cache.streams[s1]) {
      const bool held = cell.seqs.contains(from);
      cell.seqs.clear();
      if (held) cell.seqs.insert(to);
    }
    return;
  }
  for (Cell& cell : cache.streams[s0]) {
    if (cell.seqs.contains(from) && inside(cell.pos, begin, end)) cell.seqs.insert(to);
  }
}

void FakeKvPort::remove(Cache& cache, SeqId seq, Pos begin, Pos end) const {
  const auto s = stream_of(seq);
  for (std::size_t i = 0; i < cache.streams[s].size(); ++i) {
    Cell& cell = cache.streams[s][i];
    if (!inside(cell.pos, begin, end) || cell.seqs.erase(seq) == 0 || !cell.seqs.empty()) continue;
    cache.heads[s] = std::min(cache.heads[s], i);  // the search for a place goes on at the lowest hole
  }
}

void FakeKvPort::seq_cp(SeqId from, SeqId to, Pos begin, Pos end) {
  ROOST_CHECK(from >= 0 && from < traits_.n_seq && to >= 0 && to < traits_.n_seq && from != to);
  if (traits_.recurrent) {
    auto& state = states_[static_cast<std::size_t>(from)];
    ROOST_CHECK(begin == 0 && state && (end < 0 || end == state->pos + 1), "a recurrent state is copied whole");
    states_[static_cast<std::size_t>(to)] = state;
  }
  copy(base_, from, to, begin, end);
  if (traits_.swa_window > 0) copy(window_, from, to, begin, end);
}

bool FakeKvPort::seq_rm(SeqId seq, Pos begin, Pos end) {
  ROOST_CHECK(seq >= 0 && seq < traits_.n_seq);
  if (traits_.recurrent) {
    auto& state = states_[static_cast<std::size_t>(seq)];
    if (state && inside(state->pos, begin, end)) {
      if (begin > 0) return false;
      state.reset();
    }
  }
  remove(base_, seq, begin, end);
  if (traits_.swa_window > 0) remove(window_, seq, begin, end);
  return true;
}

Pos FakeKvPort::lowest(const Cache& cache, SeqId seq) const {
  Pos low = -1;
  for (const Cell& cell : cache.streams[stream_of(seq)]) {
    if (cell.seqs.contains(seq) && (low < 0 || cell.pos < low)) low = cell.pos;
  }
  return low;
}

Pos FakeKvPort::highest(const Cache& cache, SeqId seq) const {
  Pos high = -1;
  for (const Cell& cell : cache.streams[stream_of(seq)]) {
    if (cell.seqs.contains(seq)) high = std::max(high, cell.pos);
  }
  return high;
}

Pos FakeKvPort::pos_min(SeqId seq) const { return lowest(traits_.swa_window > 0 ? window_ : base_, seq); }
Pos FakeKvPort::pos_max(SeqId seq) const { return highest(base_, seq); }

std::size_t FakeKvPort::cells_used() const {
  std::size_t used = 0;
  for (const Stream& stream : base_.streams) {
    used += static_cast<std::size_t>(
        std::count_if(stream.begin(), stream.end(), [](const Cell& cell) { return !cell.seqs.empty(); }));
  }
  return used;
}

bool FakeKvPort::has_room(std::span<const SeqId> batch) const {
  std::map<std::size_t, std::size_t> needed;
  for (const SeqId seq : batch) ++needed[stream_of(seq)];
  return std::all_of(needed.begin(), needed.end(), [&](const auto& n) {
    const Stream& stream = base_.streams[n.first];
    const auto free = std::count_if(stream.begin(), stream.end(), [](const Cell& cell) { return cell.seqs.empty(); });
    return static_cast<std::size_t>(free) >= n.second;
  });
}

FakeKvPort::Cell& FakeKvPort::claim(Cache& cache, SeqId seq, bool window) {
  const auto s = stream_of(seq);
  Stream& stream = cache.streams[s];
  for (std::size_t tested = 0; tested < stream.size(); ++tested) {
    Cell& cell = stream[cache.heads[s]];
    cache.heads[s] = (cache.heads[s] + 1) % stream.size();
    if (cell.seqs.empty()) return cell;
    if (!window || cell.seqs.size() != 1) continue;
    const SeqId holder = *cell.seqs.begin();
    const Pos lost = cell.pos;
    if (highest(cache, holder) + 1 - lost < traits_.swa_window) continue;
    // No holes: what lies before the lost position goes too.
    remove(cache, holder, 0, lost + 1);
    return cell;
  }
  ROOST_CHECK(false, "has_room() was not asked");
  return stream.front();
}

std::uint64_t FakeKvPort::compute(SeqId seq, Pos pos, Token token) {
  ROOST_CHECK(seq >= 0 && seq < traits_.n_seq);
  // Commutative sums: the places of cells do not matter, their contents do.
  const auto visible = [&](const Cache& cache, Pos from) {
    std::uint64_t sum = 0;
    for (const Cell& cell : cache.streams[stream_of(seq)]) {
      if (cell.seqs.contains(seq) && cell.pos <= pos && cell.pos >= from) sum += mix(cell.value);
    }
    return sum;
  };
  std::uint64_t seen = mix(visible(base_, 0));
  if (traits_.swa_window > 0) seen += mix(visible(window_, pos - traits_.swa_window + 1) + 1);
  if (traits_.recurrent) {
    const auto& state = states_[static_cast<std::size_t>(seq)];
    ROOST_CHECK(state ? state->pos + 1 == pos : pos == 0, "a recurrent state goes on where it is");
    seen += mix((state ? state->value : 0) + 2);
  }
  const std::uint64_t value =
      mix(seen + mix(static_cast<std::uint64_t>(token) * 0x9e3779b97f4a7c15ULL + static_cast<std::uint64_t>(pos)));
  Cell& cell = claim(base_, seq, false);
  cell = {pos, value, {seq}};
  if (traits_.swa_window > 0) claim(window_, seq, true) = {pos, value, {seq}};
  if (traits_.recurrent) states_[static_cast<std::size_t>(seq)] = State{pos, value};
  return value;
}

}  // namespace roost::kv
