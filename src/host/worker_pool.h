// The worker processes: W slots, each with its current process and, during a reload, a successor that is starting and
// predecessors that drain. Starts, restarts, replaces and ends them; knows their load. Knows nothing of connections:
// the supervisor does, and asks.
//
// A process: starting -> ready -> draining -> gone, or gone from any of them. Only a ready one gets sockets.
//
// Belongs to the supervisor's thread. Loads allocate nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "handoff/channel.h"
#include "handoff/counter_page.h"
#include "host/backoff.h"
#include "host/host_view.h"
#include "host/options.h"
#include "host/poller.h"
#include "host/routing_policy.h"
#include "host/spawn.h"

namespace roost::host {

struct Worker {
  WorkerState state = WorkerState::none;
  std::uint32_t slot = 0;
  std::uint32_t serial = 0;
  Spawned process;
  handoff::Channel channel;
  handoff::Row row;
  bool stalled = false;       // did not claim in time; gets nothing until it is heard of
  bool channel_full = false;  // gets nothing until its channel is writable
  bool lost = false;          // its channel closed unasked: a crash, or as good as one
  TimePoint started_at{};
  TimePoint assigned_at{};
  TimePoint kill_at = TimePoint::max();
  handoff::Stats stats;
  std::uint64_t affinity_hits = 0;
  std::uint64_t affinity_misses = 0;
};

class WorkerPool {
 public:
  WorkerPool(const HostOptions& options, const handoff::CounterPage& page, Poller& poller, HostView& view);
  ~WorkerPool();  // kills what still runs
  WorkerPool(const WorkerPool&) = delete;

  // Rows (and so processes at once) for that many workers: two overlapping generations, and room for restarts among
  // them.
  static std::uint32_t rows_for(std::uint32_t workers) { return workers * 3 + 4; }

  void start(TimePoint now);
  Worker& at(std::uint32_t worker) { return workers_[worker]; }
  bool is_current(std::uint32_t worker, std::uint32_t serial) const;

  // The workers that can take a connection, with their load now; valid until the next call. ids() runs parallel to it.
  std::span<const WorkerLoad> loads();
  std::span<const std::uint32_t> ids() const { return ids_; }
  // What loads() gave last.
  std::span<const WorkerLoad> last_loads() const { return loads_; }
  // Is there a ready, answering worker whose channel is full (and so not among the loads)?
  bool any_channel_full() const;

  void on_ready(std::uint32_t worker, TimePoint now);
  void on_stats(std::uint32_t worker, const handoff::Stats& stats);
  // It leaves by itself; its slot gets a new one.
  void on_draining(std::uint32_t worker, TimePoint now);
  // Anything came from it: it is alive.
  void heard_of(std::uint32_t worker);
  void mark_stalled(std::uint32_t worker);
  void mark_channel_full(std::uint32_t worker);
  void on_channel_writable(std::uint32_t worker);
  void on_channel_closed(std::uint32_t worker, TimePoint now);
  // Its process has ended: collects it, retires its row, plans the restart. Take its last messages and unclaimed
  // sockets first.
  Exit on_exit(std::uint32_t worker, TimePoint now);

  // A new generation: each slot gets a successor; the old one drains when it is ready.
  void reload(TimePoint now);
  // No restarts any more; every worker drains, at most options.drain, then it is killed.
  void drain_all(TimePoint now);
  void kill_all();

  // Starts what is due, kills what is overdue.
  void tick(TimePoint now);
  TimePoint next_deadline() const;

  bool ever_ready() const { return ever_ready_; }
  std::size_t alive() const { return alive_; }
  void publish(std::uint32_t worker);
  void check_integrity() const;

 private:
  static constexpr std::uint32_t kNone = ~0U;
  struct Slot {
    std::uint32_t current = kNone;
    std::uint32_t successor = kNone;
    TimePoint start_at = TimePoint::max();
    bool crashed = false;  // what is to be started replaces a crashed one
    Backoff backoff;
  };
  // The new process's place, or kNone (logged, tried again later).
  std::uint32_t spawn(std::uint32_t slot, TimePoint now);
  void start_current(std::uint32_t slot, TimePoint now);
  void plan_restart(std::uint32_t slot, Duration run, TimePoint now);
  void order_drain(std::uint32_t worker, TimePoint now);

  const HostOptions& options_;
  const handoff::CounterPage& page_;
  Poller& poller_;
  HostView& view_;
  std::vector<Worker> workers_;  // by row
  std::vector<Slot> slots_;
  std::vector<WorkerLoad> loads_;
  std::vector<std::uint32_t> ids_;
  std::uint32_t next_serial_ = 1;
  std::size_t alive_ = 0;
  bool draining_ = false;
  bool ever_ready_ = false;
};

}  // namespace roost::host
