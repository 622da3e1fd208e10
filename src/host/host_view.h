// What the supervisor lets others see: counters, workers, refusals. The supervisor's thread writes, the admin port's
// reads; nothing here is waited for by a hand-off longer than a copy takes.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "handoff/counter_page.h"
#include "handoff/message.h"
#include "host/refusal_log.h"

namespace roost::host {

struct HostCounters {
  using Counter = std::atomic<std::uint64_t>;
  Counter accepted{0};
  Counter restarts{0};           // workers started again after a crash
  Counter handoffs{0};           // connections that a worker has claimed
  Counter handoff_retries{0};    // given to another worker, because the first did not claim
  Counter handoff_failures{0};   // of those, the ones that no worker took: refused
  Counter refusals{0};           // 429
  Counter spurious_refusals{0};  // of those, with room in a ready worker's word: 0 by construction
  Counter head_truncations{0};   // handed off before the head was complete
  Counter returns{0};            // connections that came back from a worker
  Counter affinity_hits{0};
  Counter affinity_misses{0};
};

enum class WorkerState : std::uint8_t { none, starting, ready, draining };
std::string_view to_string(WorkerState state);

// One worker process.
struct WorkerView {
  std::uint32_t id = 0;  // which of the W, from 1; old and new generation of a reload have the same
  std::int32_t pid = 0;
  WorkerState state = WorkerState::none;
  bool stalled = false;  // did not claim in time and has not been heard of since
  std::uint32_t generation = 0;
  handoff::Row row;
  handoff::Stats stats;
  std::uint64_t affinity_hits = 0;
  std::uint64_t affinity_misses = 0;

  bool healthy() const { return state == WorkerState::ready && !stalled; }
};

class HostView {
 public:
  HostView(const handoff::CounterPage& page, std::uint32_t workers, std::uint32_t turns_per_worker);

  HostCounters counters;
  RefusalLog refusals;

  std::uint64_t over_admissions() const { return page_.over_admissions(); }
  std::uint32_t turns_per_worker() const { return turns_per_worker_; }

  // Supervisor: `key` names the process; a view in state none takes it out.
  void update(std::uint32_t key, const WorkerView& worker);
  void set_loop_lag_p99(std::chrono::nanoseconds lag) { loop_lag_ns_ = lag.count(); }
  void set_draining() { draining_ = true; }

  std::vector<WorkerView> workers() const;  // by id, the newest generation of an id last
  std::size_t ready_workers() const;
  bool draining() const { return draining_; }
  std::optional<double> loop_lag_p99_ms() const;  // empty while not measured

 private:
  const handoff::CounterPage& page_;
  const std::uint32_t turns_per_worker_;
  mutable std::mutex mutex_;
  std::map<std::uint32_t, WorkerView> workers_;
  std::atomic<std::int64_t> loop_lag_ns_{-1};
  std::atomic<bool> draining_{false};
};

}  // namespace roost::host
