#include "host/worker_pool.h"

#include <signal.h>

#include <algorithm>

#include "core/check.h"
#include "core/log.h"
#include "handoff/inherit.h"

namespace roost::host {

using handoff::SendStatus;

WorkerPool::WorkerPool(const HostOptions& options, const handoff::CounterPage& page, Poller& poller, HostView& view)
    : options_(options), page_(page), poller_(poller), view_(view), workers_(page.rows()) {
  slots_.reserve(options.workers);
  for (std::uint32_t i = 0; i < options.workers; ++i) slots_.push_back({.backoff = Backoff(options.restart_backoff)});
  loads_.reserve(page.rows());
  ids_.reserve(page.rows());
}

WorkerPool::~WorkerPool() {
  kill_all();
  for (Worker& w : workers_) {
    if (w.state != WorkerState::none) reap(w.process);
  }
}

void WorkerPool::start(TimePoint now) {
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) start_current(slot, now);
}

bool WorkerPool::is_current(std::uint32_t worker, std::uint32_t serial) const {
  return worker < workers_.size() && workers_[worker].state != WorkerState::none &&
         (workers_[worker].serial & Tag::kSequenceMask) == serial;
}

std::span<const WorkerLoad> WorkerPool::loads() {
  loads_.clear();
  ids_.clear();
  for (std::uint32_t i = 0; i < workers_.size(); ++i) {
    const Worker& w = workers_[i];
    if (w.state != WorkerState::ready || w.stalled || w.channel_full) continue;
    const handoff::Load load = w.row.load();
    loads_.push_back({i, w.serial, load.reserved, load.in_flight, w.row.capacity(),
                      std::max<TimePoint>(w.row.idle_since(), w.assigned_at)});
    ids_.push_back(w.slot + 1);
  }
  return loads_;
}

bool WorkerPool::any_channel_full() const {
  return std::ranges::any_of(
      workers_, [](const Worker& w) { return w.state == WorkerState::ready && !w.stalled && w.channel_full; });
}

std::uint32_t WorkerPool::spawn(std::uint32_t slot, TimePoint now) {
  const auto free = std::ranges::find(workers_, WorkerState::none, &Worker::state);
  if (free == workers_.end()) {
    log::warn("no room to start a worker", {{"worker", slot + 1}, {"processes", workers_.size()}});
    return kNone;
  }
  const auto index = static_cast<std::uint32_t>(free - workers_.begin());
  auto ends = handoff::Channel::make();
  if (!ends) {
    log::error("worker not started", {{"worker", slot + 1}, {"why", ends.error().message}});
    return kNone;
  }
  const handoff::Row row = page_.assign(index, options_.turns_per_worker);
  std::vector<std::string> environment = options_.worker_environment;
  const handoff::Inheritance inheritance{kWorkerChannelFd, kWorkerPageFd, index, row.generation(), slot + 1};
  for (std::string& entry : inheritance.as_environment()) environment.push_back(std::move(entry));
  auto process = spawn_worker(options_.worker_command, environment, ends->second.get(), page_.fd());
  if (!process) {
    page_.retire(row);
    log::error("worker not started", {{"worker", slot + 1}, {"why", process.error().message}});
    return kNone;
  }
  Worker& w = *free;
  w = Worker{};
  w.state = WorkerState::starting;
  w.slot = slot;
  w.serial = next_serial_++;
  w.process = *std::move(process);
  w.channel = handoff::Channel(std::move(ends->first));
  w.row = row;
  w.started_at = now;
  w.kill_at = now + options_.start_timeout;
  ++alive_;
  poller_.add(w.channel.fd(), EPOLLIN, {Watched::channel, index, w.serial});
  poller_.add(w.process.pidfd.get(), EPOLLIN, {Watched::process, index, w.serial});
  publish(index);
  return index;
}

void WorkerPool::start_current(std::uint32_t slot, TimePoint now) {
  Slot& s = slots_[slot];
  s.start_at = TimePoint::max();
  if (s.crashed) view_.counters.restarts.fetch_add(1, std::memory_order_relaxed);
  s.crashed = false;
  s.current = spawn(slot, now);
  if (s.current == kNone) plan_restart(slot, Duration(0), now);
}

void WorkerPool::plan_restart(std::uint32_t slot, Duration run, TimePoint now) {
  if (draining_) return;
  const Duration delay = slots_[slot].backoff.after_run(run);
  slots_[slot].start_at = now + delay;
  slots_[slot].crashed = true;
  log::info("worker restart planned", {{"worker", slot + 1}, {"delay_ms", milliseconds(delay)}});
}

void WorkerPool::on_ready(std::uint32_t worker, TimePoint now) {
  Worker& w = workers_[worker];
  if (w.state != WorkerState::starting) return;
  w.state = WorkerState::ready;
  w.kill_at = TimePoint::max();
  w.assigned_at = TimePoint{};
  ever_ready_ = true;
  log::info("worker ready",
            {{"worker", w.slot + 1}, {"pid", w.process.pid}, {"start_ms", milliseconds(now - w.started_at)}});
  Slot& slot = slots_[w.slot];
  if (slot.successor == worker) {
    slot.successor = kNone;
    if (slot.current != kNone) order_drain(slot.current, now);
    slot.current = worker;
    slot.start_at = TimePoint::max();
  }
  publish(worker);
}

void WorkerPool::on_stats(std::uint32_t worker, const handoff::Stats& stats) {
  workers_[worker].stats = stats;
  publish(worker);
}

void WorkerPool::on_draining(std::uint32_t worker, TimePoint now) {
  Worker& w = workers_[worker];
  if (w.state != WorkerState::starting && w.state != WorkerState::ready) return;
  w.state = WorkerState::draining;
  w.kill_at = now + options_.drain + std::chrono::seconds(2);
  Slot& slot = slots_[w.slot];
  if (slot.successor == worker) slot.successor = kNone;
  if (slot.current == worker) {
    slot.current = kNone;
    if (!draining_) slot.start_at = now + slot.backoff.after_run(now - w.started_at);
  }
  log::info("worker drains by itself", {{"worker", w.slot + 1}, {"pid", w.process.pid}});
  publish(worker);
}

void WorkerPool::heard_of(std::uint32_t worker) {
  if (!workers_[worker].stalled) return;
  workers_[worker].stalled = false;
  publish(worker);
}

void WorkerPool::mark_stalled(std::uint32_t worker) {
  Worker& w = workers_[worker];
  if (w.stalled || w.state != WorkerState::ready) return;
  w.stalled = true;
  log::warn("worker does not answer", {{"worker", w.slot + 1}, {"pid", w.process.pid}});
  publish(worker);
}

void WorkerPool::mark_channel_full(std::uint32_t worker) {
  Worker& w = workers_[worker];
  if (w.channel_full) return;
  w.channel_full = true;
  poller_.modify(w.channel.fd(), EPOLLIN | EPOLLOUT, {Watched::channel, worker, w.serial});
}

void WorkerPool::on_channel_writable(std::uint32_t worker) {
  Worker& w = workers_[worker];
  if (!w.channel_full) return;
  w.channel_full = false;
  poller_.modify(w.channel.fd(), EPOLLIN, {Watched::channel, worker, w.serial});
}

void WorkerPool::on_channel_closed(std::uint32_t worker, TimePoint now) {
  Worker& w = workers_[worker];
  if (!w.channel.is_open()) return;
  poller_.remove(w.channel.fd());
  w.channel.close();
  if (w.state == WorkerState::draining) return;
  // No socket goes to it any more. Mostly it is dying, and on_exit() follows; else it finishes its turns and is made to
  // leave.
  w.lost = true;
  w.state = WorkerState::draining;
  w.kill_at = now + options_.drain + std::chrono::seconds(2);
  publish(worker);
}

Exit WorkerPool::on_exit(std::uint32_t worker, TimePoint now) {
  Worker& w = workers_[worker];
  const Exit exit = reap(w.process);
  const bool expected = w.state == WorkerState::draining && !w.lost;
  log::write(expected ? log::Level::info : log::Level::warn, "worker exited",
             {{"worker", w.slot + 1},
              {"pid", w.process.pid},
              {"code", exit.code},
              {"signal", exit.signal},
              {"run_s", seconds(now - w.started_at)}});
  poller_.remove(w.process.pidfd.get());
  if (w.channel.is_open()) poller_.remove(w.channel.fd());
  page_.retire(w.row);
  const std::uint32_t slot = w.slot;
  const Duration run = now - w.started_at;
  w = Worker{};
  --alive_;
  publish(worker);

  Slot& s = slots_[slot];
  if (s.successor == worker) {
    s.successor = kNone;
    log::error("reload: the new worker did not start; the old one goes on", {{"worker", slot + 1}});
  } else if (s.current == worker) {
    s.current = kNone;
    // A successor that is already starting takes over.
    if (s.successor != kNone) {
      s.current = std::exchange(s.successor, kNone);
    } else {
      plan_restart(slot, run, now);
    }
  }
  return exit;
}

void WorkerPool::order_drain(std::uint32_t worker, TimePoint now) {
  Worker& w = workers_[worker];
  if (w.state == WorkerState::none || w.state == WorkerState::draining) return;
  const bool starting = w.state == WorkerState::starting;
  w.state = WorkerState::draining;
  w.kill_at = now + options_.drain + std::chrono::seconds(2);
  // A full channel must not lose the order, and one that still starts may not read yet; it takes SIGTERM for the same.
  const bool told = w.channel.is_open() && w.channel.send(handoff::DrainOrder{}) == SendStatus::sent;
  if (!told || starting) ::kill(w.process.pid, SIGTERM);
  publish(worker);
}

void WorkerPool::reload(TimePoint now) {
  if (draining_) return;
  log::info("reload", {{"workers", slots_.size()}});
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    Slot& s = slots_[slot];
    if (s.current == kNone) {
      start_current(slot, now);
    } else if (s.successor == kNone) {
      s.successor = spawn(slot, now);
    }
  }
}

void WorkerPool::drain_all(TimePoint now) {
  draining_ = true;
  for (Slot& slot : slots_) slot.start_at = TimePoint::max();
  for (std::uint32_t i = 0; i < workers_.size(); ++i) order_drain(i, now);
}

void WorkerPool::kill_all() {
  draining_ = true;
  for (Worker& w : workers_) {
    if (w.state != WorkerState::none) ::kill(w.process.pid, SIGKILL);
  }
}

void WorkerPool::tick(TimePoint now) {
  for (Worker& w : workers_) {
    if (w.state == WorkerState::none || now < w.kill_at) continue;
    log::warn("worker killed: it took too long",
              {{"worker", w.slot + 1}, {"pid", w.process.pid}, {"state", to_string(w.state)}});
    w.kill_at = TimePoint::max();
    ::kill(w.process.pid, SIGKILL);
  }
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (now >= slots_[slot].start_at) start_current(slot, now);
  }
}

TimePoint WorkerPool::next_deadline() const {
  TimePoint next = TimePoint::max();
  for (const Worker& w : workers_) {
    if (w.state != WorkerState::none) next = std::min(next, w.kill_at);
  }
  for (const Slot& slot : slots_) next = std::min(next, slot.start_at);
  return next;
}

void WorkerPool::publish(std::uint32_t worker) {
  const Worker& w = workers_[worker];
  view_.update(worker, {w.slot + 1, w.process.pid, w.state, w.stalled, w.row.generation(), w.row, w.stats,
                        w.affinity_hits, w.affinity_misses});
}

void WorkerPool::check_integrity() const {
  std::size_t alive = 0;
  for (const Worker& w : workers_) {
    if (w.state == WorkerState::none) {
      ROOST_CHECK(!w.channel.is_open() && !w.row.owned(), "a worker that is gone owns nothing");
      continue;
    }
    ++alive;
    ROOST_CHECK(w.row.owned(), "a live worker owns its row");
    ROOST_CHECK(w.slot < slots_.size());
  }
  ROOST_CHECK(alive == alive_);
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const Slot& s = slots_[slot];
    for (const std::uint32_t worker : {s.current, s.successor}) {
      ROOST_CHECK(worker == kNone || workers_[worker].state != WorkerState::none,
                  "a slot names a process that is gone");
      ROOST_CHECK(worker == kNone || workers_[worker].slot == slot);
    }
    ROOST_CHECK(s.current == kNone || s.current != s.successor);
    // A worker ordered to drain stays current only while the whole pool drains.
    ROOST_CHECK(s.current != kNone || draining_ || s.start_at != TimePoint::max(), "a slot that nobody will fill");
  }
  page_.check_integrity();
}

}  // namespace roost::host
