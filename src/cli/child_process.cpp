#include "cli/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <cstring>

#include "core/unique_fd.h"

namespace roost::cli {

namespace asio = boost::asio;

namespace {

constexpr std::size_t kLineMax = 64 * 1024;  // a longer line is passed on in pieces

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (const std::string& s : strings) out.push_back(const_cast<char*>(s.c_str()));
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> merged_environment(const std::vector<std::string>& added) {
  std::vector<std::string> out = added;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view ours(*entry);
    const std::string_view name = ours.substr(0, ours.find('=') + 1);
    bool overridden = false;
    for (const std::string& a : added) overridden = overridden || a.starts_with(name);
    if (!overridden) out.emplace_back(ours);
  }
  return out;
}

}  // namespace

std::string ChildExit::describe() const {
  if (signal != 0) return fmt::format("ended by signal {} ({})", signal, ::strsignal(signal));
  return fmt::format("exit code {}", code);
}

struct ChildProcess::Impl : std::enable_shared_from_this<Impl> {
  Impl(asio::any_io_executor executor, pid_t child, UniqueFd output, UniqueFd pidfd)
      : pid(child), out(executor, output.release()), exit_watch(executor, pidfd.release()) {}

  void read_output() {
    out.async_read_some(asio::buffer(chunk), [self = shared_from_this()](boost::system::error_code ec, std::size_t n) {
      if (ec) return self->flush_line();
      self->take(std::string_view(self->chunk.data(), n));
      self->read_output();
    });
  }

  void take(std::string_view piece) {
    for (auto at = piece.find('\n'); at != std::string_view::npos; at = piece.find('\n')) {
      line.append(piece.substr(0, at));
      flush_line();
      piece.remove_prefix(at + 1);
    }
    line.append(piece);
    if (line.size() > kLineMax) flush_line();
  }

  void flush_line() {
    if (line.empty()) return;
    if (log) {
      const std::string with_end = line + "\n";
      // A full disk must not end the stack: the line is lost, nothing else.
      [[maybe_unused]] const ssize_t n = ::write(log.get(), with_end.data(), with_end.size());
    }
    if (on_line) on_line(line);
    line.clear();
  }

  void watch_exit() {
    exit_watch.async_wait(asio::posix::stream_descriptor::wait_read,
                          [self = shared_from_this()](boost::system::error_code ec) {
                            if (ec) return;
                            int status = 0;
                            if (::waitpid(self->pid, &status, 0) != self->pid) return;
                            self->ended = true;
                            self->exit.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
                            self->exit.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
                            self->take_what_is_there();
                            if (auto f = std::exchange(self->on_exit, nullptr)) f(self->exit);
                          });
  }

  // The process has ended; its last lines may still be in the pipe.
  void take_what_is_there() {
    std::array<char, 4096> piece{};
    boost::system::error_code ec;
    out.non_blocking(true, ec);
    while (!ec) {
      const std::size_t n = out.read_some(asio::buffer(piece), ec);
      take(std::string_view(piece.data(), n));
    }
    flush_line();
  }

  pid_t pid;
  asio::posix::stream_descriptor out;
  asio::posix::stream_descriptor exit_watch;
  std::array<char, 4096> chunk{};
  std::string line;
  UniqueFd log;
  OnLine on_line;
  OnExit on_exit;
  bool ended = false;
  ChildExit exit;
};

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(asio::any_io_executor executor, const ChildSpec& spec,
                                                          OnLine on_line, OnExit on_exit) {
  UniqueFd log;
  if (!spec.log_file.empty()) {
    log.reset(::open(spec.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640));
    if (!log) return io_error("cannot write " + spec.log_file, errno);
  }
  std::array<int, 2> pipe{};
  std::array<int, 2> failure{};  // carries errno of a failed exec
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return io_error("pipe", errno);
  UniqueFd read_end(pipe[0]);
  UniqueFd write_end(pipe[1]);
  if (::pipe2(failure.data(), O_CLOEXEC) != 0) return io_error("pipe", errno);
  UniqueFd failure_read(failure[0]);
  UniqueFd failure_write(failure[1]);

  const auto environment = merged_environment(spec.environment);
  auto envp = pointers(environment);
  auto argv = pointers(spec.argv);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return io_error("fork", errno);
  if (pid == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::signal(SIGPIPE, SIG_DFL);
    const int null = ::open("/dev/null", O_RDONLY);
    if (::getppid() == parent && ::dup2(null, 0) >= 0 && ::dup2(write_end.get(), 1) >= 0 &&
        ::dup2(write_end.get(), 2) >= 0) {
      environ = envp.data();
      ::execvp(argv[0], argv.data());
    }
    const int why = errno;
    [[maybe_unused]] const ssize_t n = ::write(failure_write.get(), &why, sizeof why);
    ::_exit(127);
  }
  ::setpgid(pid, pid);  // both sides, whoever is first
  failure_write.reset();
  int why = 0;
  if (::read(failure_read.get(), &why, sizeof why) == static_cast<ssize_t>(sizeof why)) {
    ::waitpid(pid, nullptr, 0);
    return io_error("cannot start " + spec.argv.front(), why);
  }
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) {
    const int error_number = errno;
    ::kill(-pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return io_error("pidfd_open", error_number);
  }
  auto impl = std::make_shared<Impl>(executor, pid, std::move(read_end), std::move(pidfd));
  impl->log = std::move(log);
  impl->on_line = std::move(on_line);
  impl->on_exit = std::move(on_exit);
  impl->read_output();
  impl->watch_exit();
  return std::unique_ptr<ChildProcess>(new ChildProcess(std::move(impl)));
}

ChildProcess::ChildProcess(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

ChildProcess::~ChildProcess() {
  impl_->on_line = nullptr;
  impl_->on_exit = nullptr;
  if (!impl_->ended) kill_group();
}

pid_t ChildProcess::pid() const { return impl_->pid; }
bool ChildProcess::running() const { return !impl_->ended; }
void ChildProcess::signal(int number) {
  if (!impl_->ended) ::kill(impl_->pid, number);
}
void ChildProcess::kill_group() {
  if (!impl_->ended) ::kill(-impl_->pid, SIGKILL);
}

}  // namespace roost::cli
