#include "host/host_view.h"

#include <algorithm>

#include "core/limits.h"

namespace roost::host {

std::string_view to_string(WorkerState state) {
  switch (state) {
    case WorkerState::none:
      return "none";
    case WorkerState::starting:
      return "starting";
    case WorkerState::ready:
      return "ready";
    case WorkerState::draining:
      return "draining";
  }
  return "";
}

HostView::HostView(const handoff::CounterPage& page, std::uint32_t workers, std::uint32_t turns_per_worker)
    : refusals(limits::kRefusalRing, workers), page_(page), turns_per_worker_(turns_per_worker) {}

void HostView::update(std::uint32_t key, const WorkerView& worker) {
  const std::lock_guard lock(mutex_);
  if (worker.state == WorkerState::none) {
    workers_.erase(key);
  } else {
    workers_[key] = worker;
  }
}

std::vector<WorkerView> HostView::workers() const {
  std::vector<WorkerView> out;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, worker] : workers_) out.push_back(worker);
  }
  std::ranges::stable_sort(out, {}, [](const WorkerView& w) { return std::pair(w.id, w.generation); });
  return out;
}

std::size_t HostView::ready_workers() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::ranges::count_if(workers_, [](const auto& entry) { return entry.second.state == WorkerState::ready; }));
}

std::optional<double> HostView::loop_lag_p99_ms() const {
  const std::int64_t ns = loop_lag_ns_;
  if (ns < 0) return std::nullopt;
  return static_cast<double>(ns) * 1e-6;
}

}  // namespace roost::host
