#include "agent/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <charconv>
#include <csignal>
#include <deque>
#include <fstream>

#include "agent/worker_connection.h"
#include "core/log.h"
#include "handoff/channel.h"
#include "handoff/counter_page.h"
#include "handoff/lag_window.h"
#include "handoff/turn_places.h"

namespace roost::agent {

using boost::system::error_code;
using handoff::Channel;
using handoff::Received;
using handoff::SendStatus;
using tcp = asio::ip::tcp;

namespace {

constexpr auto kLagProbe = std::chrono::milliseconds(50);

std::int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t size = 0;
  std::int64_t resident = -1;
  statm >> size >> resident;
  return resident < 0 ? -1 : resident * ::sysconf(_SC_PAGESIZE);
}

std::int64_t cpu_microseconds() {
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) != 0) return -1;
  const auto us = [](const timeval& t) { return std::int64_t{t.tv_sec} * 1'000'000 + t.tv_usec; };
  return us(usage.ru_utime) + us(usage.ru_stime);
}

Error bad_listen(std::string_view text, std::string_view why) {
  return {ErrorKind::bad_config, fmt::format("--listen {}: {}", text, why), {}, {}};
}

// "host:port", ":port" (every address), "[::1]:port".
Result<tcp::endpoint> parse_listen(asio::io_context& context, const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return bad_listen(text, "give host:port or :port");
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const char* end = text.data() + text.size();
  std::uint16_t port = 0;
  const auto parsed = std::from_chars(text.data() + colon + 1, end, port);
  if (parsed.ec != std::errc{} || parsed.ptr != end)
    return bad_listen(text, "the port must be a number from 0 to 65535");
  if (host.empty()) return tcp::endpoint(tcp::v4(), port);
  error_code ec;
  const auto found = tcp::resolver(context).resolve(host, std::to_string(port), tcp::resolver::passive, ec);
  if (ec || found.empty()) return bad_listen(text, "no such host: " + ec.message());
  return found.begin()->endpoint();
}

}  // namespace

Result<WorkerOptions> worker_options(const Config& config) {
  const auto ms = [&](const char* name) {
    return std::chrono::milliseconds(static_cast<std::int64_t>(config.number(name) * 1e3));
  };
  WorkerOptions o;
  o.listen = config.text("worker.listen");
  if (config.is_set("host.turns_per_worker")) {
    o.turns_per_worker = static_cast<std::uint32_t>(config.integer("host.turns_per_worker"));
  } else if (!o.listen.empty()) {
    return Error{ErrorKind::bad_config,
                 "SH_TURNS_PER_WORKER (--turns-per-worker) is not set: the turns that this worker may have in flight "
                 "(1 to 65535)",
                 {},
                 {}};
  }
  o.keepalive = ms("host.keepalive_s");
  o.drain = ms("host.drain_s");
  o.stats_interval = std::chrono::milliseconds(config.integer("host.stats_interval_ms"));
  o.max_body = static_cast<std::size_t>(config.integer("worker.max_body"));
  return o;
}

// Kept alive by its connections and pending waits: they may end after the WorkerProcess when the context is stopped
// early.
struct WorkerProcess::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::io_context& io, const net::Router& routes, WorkerOptions o, handoff::CounterPage counter_page,
       handoff::Row row)
      : context(io),
        router(routes),
        options(std::move(o)),
        page(std::move(counter_page)),
        places(row),
        channel_ready(io),
        acceptor(io),
        accept_pause(io),
        signals(io),
        lag_timer(io),
        stats_timer(io),
        drain_timer(io) {}

  Result<void> listen();
  void start();
  void wait_channel();
  void read_channel();
  void on_message(Received& got);
  void take(const handoff::Conn& conn, UniqueFd socket);
  void accept();
  void serve(tcp::socket socket, bool reserved, bool return_when_idle);
  static asio::awaitable<void> run_connection(std::shared_ptr<Impl> self, tcp::socket socket, bool reserved,
                                              bool return_when_idle);
  void give_back(tcp::socket socket, handoff::Returned::Why why);
  void flush_returns();
  void watch_signals();
  void probe_lag();
  void report();
  void begin_drain(bool tell);
  void end_if_drained();

  asio::io_context& context;
  const net::Router& router;
  WorkerOptions options;
  handoff::CounterPage page;
  handoff::TurnPlaces places;
  net::Drain drain;
  Channel channel;                               // closed without a host
  asio::posix::stream_descriptor channel_ready;  // a duplicate of its descriptor, only to be told of events
  tcp::acceptor acceptor;
  asio::steady_timer accept_pause;
  asio::signal_set signals;
  asio::steady_timer lag_timer;
  asio::steady_timer stats_timer;
  asio::steady_timer drain_timer;
  handoff::LagWindow lag;
  std::deque<std::pair<handoff::Returned, UniqueFd>> returns;  // for which the channel had no room
  std::size_t connections = 0;
  bool under_host = false;
};

Result<std::unique_ptr<WorkerProcess>> WorkerProcess::create(asio::io_context& context, const net::Router& router,
                                                             WorkerOptions options,
                                                             const handoff::EnvironmentLookup& environment) {
  ROOST_TRY(inheritance, handoff::inherited(environment));
  if (!inheritance && options.listen.empty()) {
    return Error{ErrorKind::bad_config,
                 "a worker is started by `roost host`; to run one by itself give --listen host:port (or SH_LISTEN)",
                 {},
                 {}};
  }
  if (!inheritance) {
    ROOST_TRY(page, handoff::CounterPage::create(1, 1));
    const handoff::Row row = page.assign(0, options.turns_per_worker);
    auto impl = std::make_shared<Impl>(context, router, std::move(options), std::move(page), row);
    ROOST_TRY_VOID(impl->listen());
    return std::unique_ptr<WorkerProcess>(new WorkerProcess(std::move(impl)));
  }
  ROOST_TRY(page, handoff::CounterPage::open(UniqueFd(inheritance->page_fd)));
  ROOST_TRY(row, page.attach(inheritance->row, inheritance->generation));
  ROOST_TRY(channel, Channel::adopt(UniqueFd(inheritance->channel_fd)));
  auto impl = std::make_shared<Impl>(context, router, std::move(options), std::move(page), row);
  impl->channel = std::move(channel);
  impl->under_host = true;
  return std::unique_ptr<WorkerProcess>(new WorkerProcess(std::move(impl)));
}

WorkerProcess::~WorkerProcess() = default;

int WorkerProcess::run() {
  impl_->start();
  impl_->context.run();
  return 0;
}

void WorkerProcess::begin_drain() { impl_->begin_drain(true); }
std::uint16_t WorkerProcess::port() const {
  return impl_->acceptor.is_open() ? impl_->acceptor.local_endpoint().port() : 0;
}
bool WorkerProcess::under_host() const { return impl_->under_host; }
std::size_t WorkerProcess::connections() const { return impl_->connections; }

Result<void> WorkerProcess::Impl::listen() {
  ROOST_TRY(endpoint, parse_listen(context, options.listen));
  error_code ec;
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(asio::socket_base::reuse_address(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (!ec) return {};
  const char* way_out =
      ec == asio::error::address_in_use ? "; stop what uses the port, or choose another (:0 = any free one)" : "";
  return bad_listen(options.listen, ec.message() + way_out);
}

void WorkerProcess::Impl::start() {
  if (options.handle_signals) watch_signals();
  if (under_host) {
    ::fcntl(page.fd(), F_SETFD, FD_CLOEXEC);
    channel_ready.assign(::fcntl(channel.fd(), F_DUPFD_CLOEXEC, 0));
    wait_channel();
    channel.send(handoff::Ready{::getpid()});
    report();
  } else {
    accept();
  }
  probe_lag();
}

void WorkerProcess::Impl::wait_channel() {
  channel_ready.async_wait(asio::posix::stream_descriptor::wait_read,
                           [self = shared_from_this()](const error_code& ec) {
                             if (!ec) self->read_channel();
                           });
}

void WorkerProcess::Impl::read_channel() {
  while (true) {
    Received got = channel.receive();
    switch (got.status) {
      case Received::Status::empty:
        wait_channel();
        return;
      case Received::Status::closed:
        log::warn("the supervisor is gone");
        begin_drain(false);
        return;
      case Received::Status::ignored:
        log::warn("unknown message from the supervisor");
        break;
      case Received::Status::message:
        on_message(got);
        break;
    }
  }
}

void WorkerProcess::Impl::on_message(Received& got) {
  if (const auto* conn = std::get_if<handoff::Conn>(&*got.message)) {
    take(*conn, std::move(got.socket));
  } else if (std::holds_alternative<handoff::DrainOrder>(*got.message)) {
    begin_drain(false);
  } else {
    log::warn("the supervisor sent a message that is not its to send");
  }
}

// The claim decides whether the socket is this worker's: only then may a byte of it be read.
void WorkerProcess::Impl::take(const handoff::Conn& conn, UniqueFd socket) {
  if (!socket || drain.draining()) {
    if (!socket) log::warn("a connection came without its socket: out of descriptors?");
    page.decline(conn.claim_slot, conn.ticket);
    return;
  }
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  tcp::socket connection(context);
  error_code ec;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    ec.assign(errno, boost::system::system_category());
  } else {
    connection.assign(address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), socket.get(), ec);
  }
  if (ec) {
    log::warn("a connection cannot be served", {{"why", ec.message()}});
    page.decline(conn.claim_slot, conn.ticket);
    return;
  }
  (void)socket.release();
  if (!page.claim(conn.claim_slot, conn.ticket)) return;  // taken back: another worker has it
  serve(std::move(connection), conn.reserved, conn.return_when_idle);
}

void WorkerProcess::Impl::accept() {
  acceptor.async_accept([self = shared_from_this()](const error_code& ec, tcp::socket socket) {
    if (ec == asio::error::operation_aborted || !self->acceptor.is_open()) return;
    if (!ec) {
      self->serve(std::move(socket), false, false);
      self->accept();
      return;
    }
    // Out of descriptors: the backlog keeps them meanwhile.
    self->accept_pause.expires_after(std::chrono::milliseconds(100));
    self->accept_pause.async_wait([self](const error_code& stopped) {
      if (!stopped && self->acceptor.is_open()) self->accept();
    });
  });
}

void WorkerProcess::Impl::serve(tcp::socket socket, bool reserved, bool return_when_idle) {
  asio::co_spawn(context, run_connection(shared_from_this(), std::move(socket), reserved, return_when_idle),
                 asio::detached);
}

asio::awaitable<void> WorkerProcess::Impl::run_connection(std::shared_ptr<Impl> self, tcp::socket socket, bool reserved,
                                                          bool return_when_idle) {
  ++self->connections;
  self->places.row().open_connection();
  std::optional<tcp::socket> back;
  handoff::Returned::Why why{};
  {
    WorkerConnection connection({self->places, self->drain, self->under_host, self->options.max_waiting}, reserved,
                                return_when_idle);
    net::ConnectionOptions options;
    options.max_body = self->options.max_body;
    options.idle_timeout = self->options.keepalive;
    options.render_error = self->options.render_error;
    connection.hook_into(options);
    back = co_await net::serve_connection(std::move(socket), self->router, options);
    why = connection.returned_why();
  }
  self->places.row().close_connection();
  if (back) self->give_back(std::move(*back), why);
  --self->connections;
  self->end_if_drained();
}

void WorkerProcess::Impl::give_back(tcp::socket socket, handoff::Returned::Why why) {
  error_code ec;
  UniqueFd fd(socket.release(ec));
  if (ec || !channel.is_open()) return;
  returns.emplace_back(handoff::Returned{why}, std::move(fd));
  if (returns.size() == 1) flush_returns();
}

void WorkerProcess::Impl::flush_returns() {
  while (!returns.empty()) {
    switch (channel.send(returns.front().first, returns.front().second.get())) {
      case SendStatus::sent:
        returns.pop_front();
        break;
      case SendStatus::closed:
        returns.clear();
        break;
      case SendStatus::full:
        channel_ready.async_wait(asio::posix::stream_descriptor::wait_write,
                                 [self = shared_from_this()](const error_code& ec) {
                                   if (!ec) self->flush_returns();
                                 });
        return;
    }
  }
  end_if_drained();
}

void WorkerProcess::Impl::watch_signals() {
  // A reader that went away must not end the process (its supervisor starts it with the default action).
  std::signal(SIGPIPE, SIG_IGN);
  error_code ec;
  signals.add(SIGTERM, ec);
  signals.add(SIGINT, ec);
  signals.async_wait([self = shared_from_this()](const error_code& failed, int signal) {
    if (failed) return;
    if (signal == SIGTERM || !self->under_host) {
      if (self->drain.draining()) self->context.stop();
      self->begin_drain(true);
    }
    self->watch_signals();
  });
}

void WorkerProcess::Impl::probe_lag() {
  lag_timer.expires_after(kLagProbe);
  lag_timer.async_wait([self = shared_from_this()](const error_code& ec) {
    if (ec) return;
    self->lag.add(std::chrono::steady_clock::now() - self->lag_timer.expiry());
    self->places.admit();
    self->probe_lag();
  });
}

void WorkerProcess::Impl::report() {
  handoff::Stats stats;
  if (const auto p99 = lag.p99())
    stats.loop_lag_p99_us = std::chrono::duration_cast<std::chrono::microseconds>(*p99).count();
  stats.rss_bytes = resident_bytes();
  stats.cpu_us = cpu_microseconds();
  stats.waiting_turns = static_cast<std::int64_t>(places.waiting());
  if (options.extend_stats) options.extend_stats(stats);
  channel.send(stats);  // a full channel loses one report, nothing else
  stats_timer.expires_after(options.stats_interval);
  stats_timer.async_wait([self = shared_from_this()](const error_code& ec) {
    if (!ec) self->report();
  });
}

// `tell`: the supervisor does not know yet, and must send no more sockets.
void WorkerProcess::Impl::begin_drain(bool tell) {
  if (drain.draining()) return;
  log::info("draining", {{"connections", connections}});
  if (tell && under_host) channel.send(handoff::Draining{});
  error_code ignored;
  acceptor.close(ignored);
  accept_pause.cancel();
  drain.begin();
  drain_timer.expires_after(options.drain);
  drain_timer.async_wait([self = shared_from_this()](const error_code& ec) {
    if (ec) return;
    log::warn("the drain took too long; turns are cut", {{"connections", self->connections}});
    self->context.stop();
  });
  end_if_drained();
}

void WorkerProcess::Impl::end_if_drained() {
  if (!drain.draining() || connections > 0 || !returns.empty()) return;
  context.stop();
}

}  // namespace roost::agent
