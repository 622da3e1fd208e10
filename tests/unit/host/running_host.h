// A supervisor with toy workers, in a thread of the test.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <thread>

#include "client.h"
#include "host/supervisor.h"

namespace roost::host {

class RunningHost {
 public:
  static HostOptions options(std::uint32_t workers, std::uint32_t turns_per_worker) {
    HostOptions o;
    o.workers = workers;
    o.turns_per_worker = turns_per_worker;
    o.worker_command = {TOY_WORKER};
    o.handle_signals = false;
    o.check_every_turn = true;
    o.restart_backoff = std::chrono::milliseconds(10);
    o.drain = std::chrono::seconds(5);
    return o;
  }

  explicit RunningHost(HostOptions o) {
    const std::uint32_t workers = o.workers;
    auto made = Supervisor::create(std::move(o));
    if (!made) {
      ADD_FAILURE() << made.error().message;
      return;
    }
    supervisor = *std::move(made);
    thread_ = std::thread([this] {
      exit_code = supervisor->run();
      ended = true;
    });
    EXPECT_TRUE(eventually([&] { return view().ready_workers() == workers; })) << "the workers did not start";
  }
  RunningHost(std::uint32_t workers, std::uint32_t turns_per_worker)
      : RunningHost(options(workers, turns_per_worker)) {}
  ~RunningHost() {
    if (!thread_.joinable()) return;
    supervisor->request_drain();
    supervisor->request_drain();
    thread_.join();
    supervisor->check_integrity();
    EXPECT_EQ(view().over_admissions(), 0U);
    EXPECT_EQ(counters().spurious_refusals, 0U);
  }

  std::uint16_t port() const { return supervisor->port(); }
  const HostView& view() const { return supervisor->view(); }
  const HostCounters& counters() const { return view().counters; }
  handoff::Load load() const {
    handoff::Load sum;
    for (const WorkerView& w : view().workers()) {
      const handoff::Load l = w.row.load();
      sum.reserved += l.reserved;
      sum.in_flight += l.in_flight;
      sum.open += l.open;
    }
    return sum;
  }
  bool in_flight_becomes(std::uint32_t n) const {
    return eventually([&] { return load().in_flight == n && load().reserved == 0; });
  }
  std::set<int> ready_pids() const {
    std::set<int> out;
    for (const WorkerView& w : view().workers()) {
      if (w.state == WorkerState::ready) out.insert(w.pid);
    }
    return out;
  }
  // The pid that a toy worker put in front of a turn's answer.
  static int pid_of(const Answer& answer) { return std::atoi(answer.body.c_str()); }

  std::unique_ptr<Supervisor> supervisor;
  std::atomic<bool> ended{false};
  std::atomic<int> exit_code{-1};

 private:
  std::thread thread_;
};

}  // namespace roost::host
