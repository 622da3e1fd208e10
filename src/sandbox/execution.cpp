#include "sandbox/execution.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "core/unique_fd.h"

namespace roost::sandbox {
namespace asio = boost::asio;
namespace {

constexpr std::size_t kChunkBytes = 32 * 1024;
// Something that escaped may hold a pipe open after the command's end; it is waited for while output still comes.
constexpr auto kDrainIdle = std::chrono::seconds(2);
constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return io_error("pipe", errno);
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

// Only our ends: the command's must block, as programs expect.
void set_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

Result<UniqueFd> script_file(const std::string& script) {
  UniqueFd fd(memfd_create("roost-script", MFD_CLOEXEC));
  if (!fd) return io_error("memfd_create", errno);
  for (std::size_t at = 0; at < script.size();) {
    const ssize_t n = write(fd.get(), script.data() + at, script.size() - at);
    if (n < 0) return io_error("script", errno);
    at += static_cast<std::size_t>(n);
  }
  if (lseek(fd.get(), 0, SEEK_SET) != 0) return io_error("script", errno);
  return fd;
}

int exit_code_of(const ProcessExit& exit) {
  if (WIFEXITED(exit.status)) return WEXITSTATUS(exit.status);
  return WIFSIGNALED(exit.status) ? -WTERMSIG(exit.status) : -1;
}

}  // namespace

Execution::Execution(asio::any_io_executor executor, FrameSink& sink, std::size_t cap_bytes)
    : executor_(executor),
      sink_(sink),
      cap_bytes_(cap_bytes),
      stdin_(executor),
      control_(executor),
      out_(executor),
      err_(executor),
      drain_timer_(executor) {}

Result<void> Execution::start(Zygote& zygote, Isolation::Plan plan, std::string marker, std::string stdin_bytes,
                              OnChunk on_chunk, OnDone on_done) {
  ROOST_TRY(out, make_pipe());
  ROOST_TRY(err, make_pipe());
  Pipe in;
  if (stdin_bytes.empty()) {
    in.read.reset(open("/dev/null", O_RDONLY | O_CLOEXEC));
  } else {
    ROOST_TRY(made, make_pipe());
    in = std::move(made);
  }
  UniqueFd script;
  if (!plan.script.empty()) {
    ROOST_TRY(file, script_file(plan.script));
    script = std::move(file);
  }
  SpawnRequest& request = plan.request;
  request.marker = std::move(marker);
  request.stdin_fd = in.read.get();
  request.stdout_fd = out.write.get();
  request.stderr_fd = err.write.get();
  request.script_fd = script.get();
  ROOST_TRY(control, zygote.spawn(request));

  on_chunk_ = std::move(on_chunk);
  on_done_ = std::move(on_done);
  control_.assign(control.release());
  set_nonblocking(out.read.get());
  set_nonblocking(err.read.get());
  out_.pipe.assign(out.read.release());
  err_.pipe.assign(err.read.release());
  out_.open = err_.open = true;
  asio::co_spawn(executor_, pump(wire::STREAM_STDOUT), asio::detached);
  asio::co_spawn(executor_, pump(wire::STREAM_STDERR), asio::detached);
  asio::co_spawn(executor_, wait_exit(), asio::detached);
  if (in.write) {
    set_nonblocking(in.write.get());
    stdin_.assign(in.write.release());
    asio::co_spawn(executor_, feed(std::move(stdin_bytes)), asio::detached);
  }
  return {};
}

void Execution::kill() {
  if (std::exchange(killed_, true)) return;
  if (control_.is_open()) Zygote::kill(control_.native_handle());
  close_outputs();
}

void Execution::close_outputs() {
  boost::system::error_code ignored;
  stdin_.close(ignored);
  out_.pipe.close(ignored);
  err_.pipe.close(ignored);
}

asio::awaitable<void> Execution::feed(std::string bytes) {
  const auto self = shared_from_this();
  // A command need not read its stdin: an error here is the command's choice.
  co_await asio::async_write(stdin_, asio::buffer(bytes), kTuple);
  boost::system::error_code ignored;
  stdin_.close(ignored);
}

asio::awaitable<void> Execution::pump(wire::Stream which) {
  const auto self = shared_from_this();
  Output& from = output(which);
  std::string buffer;
  while (from.bytes < cap_bytes_) {
    co_await sink_.writable();
    if (!from.pipe.is_open()) break;
    buffer.resize(std::min(kChunkBytes, cap_bytes_ - from.bytes));
    const auto [error, n] = co_await from.pipe.async_read_some(asio::buffer(buffer), kTuple);
    if (error || n == 0) break;
    from.bytes += n;
    buffer.resize(n);
    on_chunk_(which, std::move(buffer));
    buffer = {};
  }
  if (from.bytes >= cap_bytes_) {
    // Also at exactly the cap: nobody knows whether more would have come.
    outcome_.truncated = true;
    kill();
  }
  from.open = false;
  boost::system::error_code ignored;
  from.pipe.close(ignored);
  finish_when_all_ended();
}

asio::awaitable<void> Execution::wait_exit() {
  const auto self = shared_from_this();
  ProcessExit exit;
  const auto [error, n] = co_await control_.async_read_some(asio::buffer(&exit, sizeof exit), kTuple);
  outcome_.exit_code = !error && n == sizeof exit && exit.spawn_error == 0 ? exit_code_of(exit) : -1;
  exited_ = true;
  boost::system::error_code ignored;
  control_.close(ignored);
  stdin_.close(ignored);
  limit_drain();
  finish_when_all_ended();
}

void Execution::limit_drain() {
  if (!out_.open && !err_.open) return;
  drained_at_ = out_.bytes + err_.bytes;
  drain_timer_.expires_after(kDrainIdle);
  drain_timer_.async_wait([self = shared_from_this()](boost::system::error_code error) -> void {
    if (error) return;
    const auto check = [](std::shared_ptr<Execution> me) -> asio::awaitable<void> {
      co_await me->sink_.writable();  // A slow reader is no reason to cut output.
      if (me->out_.bytes + me->err_.bytes == me->drained_at_) {
        me->close_outputs();
      } else {
        me->limit_drain();
      }
    };
    asio::co_spawn(self->executor_, check(self), asio::detached);
  });
}

void Execution::finish_when_all_ended() {
  if (!exited_ || out_.open || err_.open || !on_done_) return;
  drain_timer_.cancel();
  // on_chunk and on_done may hold what holds us.
  on_chunk_ = nullptr;
  std::exchange(on_done_, nullptr)(outcome_);
}

}  // namespace roost::sandbox
