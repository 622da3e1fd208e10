// The supervisor: accepts connections, looks at the head of a request without consuming it, picks a worker, hands the
// socket over, and refuses when every worker is at S. It never reads a request body and never touches a byte of an
// answer.
//
// One thread, one level-triggered epoll loop, no allocation per connection once as many have been held at once as will
// be. A connection's way through it (connection_table.h has the stages):
//
//   accepted ─▶ idle ─▶ head ─▶ (routed) ─▶ unclaimed ─▶ claimed by a worker: gone from here
//                                  │  ▲          │
//                                  │  └──────────┴── not claimed in time, or the worker died: routed again
//                                  ├─▶ blocked: every channel is full; accepting pauses
//                                  └─▶ refused: answered here, lingers until the peer has closed
//
// Invariants
//   1. A place is reserved (by compare-and-swap in the worker's word) exactly while a turn's connection is on its way
//   to that
//      worker: from before the hand-off until the worker turns it into a turn, or the claim is taken back.
//   2. The duplicate of a handed-off socket is kept until its claim is decided.
//
// Files: supervisor.cpp the loop and the life cycle, intake.cpp accepting, peeking and refusing, hand_off.cpp routing
// and claims.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "handoff/counter_page.h"
#include "handoff/lag_window.h"
#include "host/claim_slots.h"
#include "host/connection_table.h"
#include "host/host_view.h"
#include "host/listener.h"
#include "host/options.h"
#include "host/poller.h"
#include "host/refusal.h"
#include "host/routing_policy.h"
#include "host/worker_pool.h"

namespace roost::host {

class Supervisor {
 public:
  // Binds the public port. Errors: bad_config (port in use, no such address), io.
  static Result<std::unique_ptr<Supervisor>> create(HostOptions options);
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;

  // Starts the workers and serves until drained. `on_ready` runs once, when the first worker is ready. 0 after a clean
  // end; 78 when the workers refuse their configuration before one was ever ready.
  int run(std::function<void()> on_ready = {});

  // Thread-safe: the same as SIGTERM (a second time: as the second) and SIGHUP.
  void request_drain();
  void request_reload();

  std::uint16_t port() const { return port_; }
  const HostOptions& options() const { return options_; }
  const HostView& view() const { return view_; }

  // Aborts when an invariant is broken. On the loop's thread, or when it does not run.
  void check_integrity();

 private:
  Supervisor(HostOptions options, handoff::CounterPage page, Poller poller, Listener listener, UniqueFd signals,
             UniqueFd control);

  // supervisor.cpp
  void dispatch(const epoll_event& event);
  void on_signals();
  void on_control();
  void on_process_end(std::uint32_t worker);
  void on_channel(std::uint32_t worker, std::uint32_t events);
  bool read_channel(std::uint32_t worker);  // false: nothing more for now
  struct FromWorker;                        // one operator() per message
  void drain();
  void end_now();
  bool finished();
  void update_accepting();
  void measure(TimePoint woke);
  int wait_ms();

  // intake.cpp
  void accept_connections();
  void adopt(int fd, bool returned);
  void on_connection(std::uint32_t index, std::uint32_t events);
  void look(std::uint32_t index, std::uint32_t events);
  void watch(std::uint32_t index, Stage stage);
  void unwatch(std::uint32_t index);
  void set_low_water(std::uint32_t index, std::uint32_t bytes);
  void refuse(std::uint32_t index, ErrorKind kind);
  void read_lingering(std::uint32_t index);
  void expire_intake();
  void close(std::uint32_t index);

  // hand_off.cpp
  void route(std::uint32_t index);
  enum class HandOff { sent, full, none };
  HandOff hand_off(std::uint32_t index);
  handoff::SendStatus send_to(std::uint32_t index, const WorkerLoad& load, ClaimSlots::Ticket ticket, bool reserved);
  void refuse_overloaded(std::uint32_t index);
  void settle_claims();
  void settle_claims_of(std::uint32_t worker);
  enum class Settled { waiting, done };
  Settled settle(std::uint32_t index, bool overdue);
  void retry(std::uint32_t index);
  void retry_blocked();

  HostOptions options_;
  handoff::CounterPage page_;
  Poller poller_;
  UniqueFd listener_;
  const std::uint16_t port_;
  UniqueFd signals_;
  UniqueFd control_;
  HostView view_;
  std::unique_ptr<RoutingPolicy> policy_;
  ConnectionTable connections_;
  ClaimSlots claims_;
  WorkerPool pool_;
  std::function<void()> on_ready_;
  const std::string overloaded_;
  const std::string shutting_down_;

  TimePoint now_{};           // of this turn of the loop
  TimePoint accept_again_{};  // accepting pauses until then: out of descriptors
  TimePoint next_measure_{};
  TimePoint drain_deadline_ = TimePoint::max();
  bool accepting_ = false;  // the listener is watched
  bool draining_ = false;
  bool observe_loads_ = false;  // a refusal's record still lacks the next loads
  bool unblock_ = false;        // something changed that a blocked connection waits for
  int exit_code_ = 0;
  std::atomic<unsigned> drain_requests_{0};
  std::atomic<bool> reload_requested_{false};
  unsigned drains_done_ = 0;
  handoff::LagWindow lag_;
};

}  // namespace roost::host
