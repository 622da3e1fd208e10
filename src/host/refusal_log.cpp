#include "host/refusal_log.h"

#include <algorithm>

namespace roost::host {

RefusalLog::RefusalLog(std::size_t records, std::size_t workers)
    : workers_(std::max<std::size_t>(workers, 1)),
      records_(std::clamp<std::size_t>(kMaxCells / workers_, 1, records)),
      heads_(records_),
      // Not written before it is used: pages of records that never come cost nothing.
      cells_(std::make_unique_for_overwrite<RefusedWorker[]>(records_ * workers_)) {}

void RefusalLog::add(double unix_seconds, std::uint32_t turns_per_worker, std::span<const WorkerLoad> loads,
                     std::span<const std::uint32_t> ids) {
  const std::lock_guard lock(mutex_);
  const std::size_t count = std::min(loads.size(), workers_);
  heads_[next_] = {unix_seconds, turns_per_worker, static_cast<std::uint32_t>(count)};
  for (std::size_t i = 0; i < count; ++i) {
    cells_of(next_)[i] = {
        ids[i], static_cast<std::uint16_t>(loads[i].reserved), static_cast<std::uint16_t>(loads[i].in_flight), 0, 0,
        false};
  }
  next_ = (next_ + 1) % records_;
  count_ = std::min(count_ + 1, records_);
  unobserved_ = std::min(unobserved_ + 1, records_);
}

void RefusalLog::observe(std::span<const WorkerLoad> loads, std::span<const std::uint32_t> ids) {
  const std::lock_guard lock(mutex_);
  for (; unobserved_ > 0; --unobserved_) {
    const std::size_t slot = (next_ + records_ - unobserved_) % records_;
    for (std::uint32_t w = 0; w < heads_[slot].workers; ++w) {
      RefusedWorker& cell = cells_of(slot)[w];
      const auto at = std::ranges::find(ids, cell.worker);
      if (at == ids.end()) continue;
      const WorkerLoad& load = loads[static_cast<std::size_t>(at - ids.begin())];
      cell.next_reserved = static_cast<std::uint16_t>(load.reserved);
      cell.next_in_flight = static_cast<std::uint16_t>(load.in_flight);
      cell.next_known = true;
    }
  }
}

std::vector<Refusal> RefusalLog::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<Refusal> out;
  out.reserve(count_);
  for (std::size_t i = count_; i > 0; --i) {
    const std::size_t slot = (next_ + records_ - i) % records_;
    const RefusedWorker* cells = cells_of(slot);
    out.push_back({heads_[slot].unix_seconds, heads_[slot].turns_per_worker, {cells, cells + heads_[slot].workers}});
  }
  return out;
}

}  // namespace roost::host
