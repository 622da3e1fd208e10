#include "host/supervisor.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/check.h"
#include "core/log.h"
#include "host/limits.h"

namespace roost::host {
namespace {

constexpr int kMessagesPerWake = 256;  // of one worker, before the others get their turn
constexpr auto kClaimPoll = std::chrono::milliseconds(1);
constexpr auto kMeasureInterval = std::chrono::seconds(1);
constexpr int kExitBadConfig = 78;

Result<UniqueFd> watch_signals(bool wanted) {
  if (!wanted) return UniqueFd();
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&set, signal);
  UniqueFd fd(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!fd) return io_error("signalfd", errno);
  return fd;
}

}  // namespace

Result<std::unique_ptr<Supervisor>> Supervisor::create(HostOptions options) {
  ROOST_CHECK(options.workers > 0 && options.turns_per_worker > 0 && !options.worker_command.empty());
  ROOST_TRY(page, handoff::CounterPage::create(WorkerPool::rows_for(options.workers), kHandOffsUnderWay));
  ROOST_TRY(poller, Poller::create());
  ROOST_TRY(listener, listen_on(options.address, options.port));
  ROOST_TRY(signals, watch_signals(options.handle_signals));
  UniqueFd control(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!control) return io_error("eventfd", errno);
  return std::unique_ptr<Supervisor>(new Supervisor(std::move(options), std::move(page), std::move(poller),
                                                    std::move(listener), std::move(signals), std::move(control)));
}

Supervisor::Supervisor(HostOptions options, handoff::CounterPage page, Poller poller, Listener listener,
                       UniqueFd signals, UniqueFd control)
    : options_(std::move(options)),
      page_(std::move(page)),
      poller_(std::move(poller)),
      listener_(std::move(listener.fd)),
      port_(listener.port),
      signals_(std::move(signals)),
      control_(std::move(control)),
      view_(page_, options_.workers, options_.turns_per_worker),
      policy_(make_policy(options_.policy)),
      claims_(page_.claims()),
      pool_(options_, page_, poller_, view_),
      overloaded_(refusal_bytes(ErrorKind::overloaded)),
      shutting_down_(refusal_bytes(ErrorKind::shutting_down)) {}

Supervisor::~Supervisor() = default;

void Supervisor::request_drain() {
  ++drain_requests_;
  ::eventfd_write(control_.get(), 1);
}

void Supervisor::request_reload() {
  reload_requested_ = true;
  ::eventfd_write(control_.get(), 1);
}

int Supervisor::run(std::function<void()> on_ready) {
  on_ready_ = std::move(on_ready);
  if (signals_) poller_.add(signals_.get(), EPOLLIN, {Watched::signals});
  poller_.add(control_.get(), EPOLLIN, {Watched::control});
  now_ = std::chrono::steady_clock::now();
  next_measure_ = now_ + kMeasureInterval;
  pool_.start(now_);
  while (!finished()) {
    const auto events = poller_.wait(wait_ms());
    const TimePoint woke = now_ = std::chrono::steady_clock::now();
    for (const epoll_event& event : events) dispatch(event);
    settle_claims();
    expire_intake();
    pool_.tick(now_);
    retry_blocked();
    update_accepting();
    measure(woke);
    if (options_.check_every_turn) check_integrity();
  }
  return exit_code_;
}

void Supervisor::dispatch(const epoll_event& event) {
  const Tag tag = Tag::unpacked(event.data.u64);
  switch (tag.what) {
    case Watched::listener:
      accept_connections();
      break;
    case Watched::signals:
      on_signals();
      break;
    case Watched::control:
      on_control();
      break;
    case Watched::channel:
      if (pool_.is_current(tag.index, tag.sequence)) on_channel(tag.index, event.events);
      break;
    case Watched::process:
      if (pool_.is_current(tag.index, tag.sequence)) on_process_end(tag.index);
      break;
    case Watched::connection:
      if (connections_.is_current(tag.index, tag.sequence)) on_connection(tag.index, event.events);
      break;
  }
}

void Supervisor::on_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGHUP) {
      pool_.reload(now_);
    } else {
      drain();
    }
  }
}

void Supervisor::on_control() {
  eventfd_t value = 0;
  ::eventfd_read(control_.get(), &value);
  if (reload_requested_.exchange(false)) pool_.reload(now_);
  while (drains_done_ < drain_requests_) {
    ++drains_done_;
    drain();
  }
}

// One message of a worker.
struct Supervisor::FromWorker {
  Supervisor& self;
  const std::uint32_t worker;
  UniqueFd socket;

  void operator()(const handoff::Ready&) {
    self.pool_.on_ready(worker, self.now_);
    self.unblock_ = true;
    if (auto on_ready = std::exchange(self.on_ready_, nullptr)) on_ready();
  }
  void operator()(const handoff::Stats& stats) { self.pool_.on_stats(worker, stats); }
  void operator()(const handoff::Draining&) { self.pool_.on_draining(worker, self.now_); }
  void operator()(const handoff::Returned&) {
    self.view_.counters.returns.fetch_add(1, std::memory_order_relaxed);
    if (socket) self.adopt(socket.release(), true);
  }
  // Orders of a supervisor.
  template <class Other>
  void operator()(const Other&) {
    log::warn("a worker sent a message that is not its to send", {{"worker", worker}});
  }
};

void Supervisor::on_channel(std::uint32_t worker, std::uint32_t events) {
  if ((events & EPOLLOUT) != 0U) {
    pool_.on_channel_writable(worker);
    unblock_ = true;
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0U) read_channel(worker);
}

bool Supervisor::read_channel(std::uint32_t worker) {
  for (int i = 0; i < kMessagesPerWake; ++i) {
    handoff::Channel& channel = pool_.at(worker).channel;
    if (!channel.is_open()) return false;
    handoff::Received got = channel.receive();
    switch (got.status) {
      case handoff::Received::Status::empty:
        return false;
      case handoff::Received::Status::closed:
        pool_.on_channel_closed(worker, now_);
        settle_claims_of(worker);
        return false;
      case handoff::Received::Status::ignored:
        log::warn("unknown message from a worker", {{"worker", worker}});
        break;
      case handoff::Received::Status::message:
        pool_.heard_of(worker);
        unblock_ = true;
        if (got.socket_lost) log::warn("a returned connection was lost: out of descriptors", {{"worker", worker}});
        std::visit(FromWorker{*this, worker, std::move(got.socket)}, *got.message);
        break;
    }
  }
  return true;
}

void Supervisor::on_process_end(std::uint32_t worker) {
  // Its last messages first: a connection that it gave back is not lost with it.
  while (read_channel(worker)) {
  }
  pool_.on_channel_closed(worker, now_);
  const bool was_ready = pool_.ever_ready();
  // What it has not claimed stays answerable; settle_claims_of() needs to see that it is gone, on_exit() frees its
  // place.
  settle_claims_of(worker);
  const Exit exit = pool_.on_exit(worker, now_);
  unblock_ = true;
  if (exit.code == kExitBadConfig && exit.signal == 0 && !was_ready && !draining_) {
    log::error("the workers refuse their configuration; see their message above", {});
    exit_code_ = kExitBadConfig;
    end_now();
  }
}

void Supervisor::drain() {
  if (draining_) {
    log::warn("second stop signal: ending now", {});
    end_now();
    return;
  }
  log::info("draining", {{"drain_s", seconds(options_.drain)}});
  draining_ = true;
  drain_deadline_ = now_ + options_.drain + std::chrono::seconds(3);
  view_.set_draining();
  update_accepting();
  listener_.reset();
  while (connections_.count(Stage::idle) > 0) close(connections_.front(Stage::idle));
  for (const Stage stage : {Stage::head, Stage::blocked}) {
    while (connections_.count(stage) > 0) refuse(connections_.front(stage), ErrorKind::shutting_down);
  }
  pool_.drain_all(now_);
}

void Supervisor::end_now() {
  draining_ = true;
  view_.set_draining();
  drain_deadline_ = now_;
  pool_.kill_all();
}

bool Supervisor::finished() {
  if (!draining_) return false;
  if (pool_.alive() > 0) return now_ >= drain_deadline_ + std::chrono::seconds(1);
  return connections_.held() == 0 || now_ >= drain_deadline_;
}

void Supervisor::update_accepting() {
  const bool wanted = !draining_ && pool_.ever_ready() && connections_.count(Stage::blocked) == 0 &&
                      connections_.held() < options_.max_connections && now_ >= accept_again_;
  if (wanted == accepting_) return;
  accepting_ = wanted;
  if (wanted) {
    poller_.add(listener_.get(), EPOLLIN, {Watched::listener});
  } else {
    poller_.remove(listener_.get());
  }
}

void Supervisor::measure(TimePoint woke) {
  lag_.add(std::chrono::steady_clock::now() - woke);
  if (now_ < next_measure_) return;
  next_measure_ = now_ + kMeasureInterval;
  if (const auto p99 = lag_.p99()) view_.set_loop_lag_p99(*p99);
}

int Supervisor::wait_ms() {
  TimePoint next = std::min(pool_.next_deadline(), next_measure_);
  const auto expires = [&](Stage stage, Duration life) {
    const std::uint32_t front = connections_.front(stage);
    if (front != kNoConnection) next = std::min(next, connections_.at(front).since + life);
  };
  expires(Stage::idle, options_.keepalive);
  expires(Stage::head, options_.head_timeout);
  expires(Stage::blocked, options_.claim_timeout);
  expires(Stage::refused, options_.linger);
  // A claim is a word in memory: nothing wakes the loop when it changes, so it looks again soon.
  if (connections_.count(Stage::unclaimed) > 0) next = std::min<TimePoint>(next, now_ + kClaimPoll);
  if (accept_again_ > now_) next = std::min(next, accept_again_);
  if (draining_) next = std::min(next, drain_deadline_);
  const TimePoint now = std::chrono::steady_clock::now();
  if (next <= now) return draining_ && now >= drain_deadline_ ? 1 : 0;
  return static_cast<int>(
      std::min<std::int64_t>(std::chrono::ceil<std::chrono::milliseconds>(next - now).count(), 60'000));
}

void Supervisor::check_integrity() {
  connections_.check_integrity();
  pool_.check_integrity();
  ROOST_CHECK(claims_.used() == connections_.count(Stage::unclaimed), "each unclaimed connection has one claim");
}

}  // namespace roost::host
