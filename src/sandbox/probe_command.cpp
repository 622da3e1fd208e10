#include "sandbox/probe_command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

namespace roost::sandbox {
namespace {

constexpr int kTimeoutMs = 10'000;

std::string read_now(int fd) {
  std::array<char, 4096> buffer;
  const ssize_t n = read(fd, buffer.data(), buffer.size());
  return n > 0 ? std::string(buffer.data(), static_cast<std::size_t>(n)) : std::string();
}

}  // namespace

ProbeResult run_probe(Zygote& zygote, SpawnRequest request) {
  ProbeResult result;
  int out[2];
  int err[2];
  if (pipe2(out, O_CLOEXEC | O_NONBLOCK) != 0) return result;
  const UniqueFd out_read(out[0]);
  const UniqueFd out_write(out[1]);
  if (pipe2(err, O_CLOEXEC | O_NONBLOCK) != 0) return result;
  const UniqueFd err_read(err[0]);
  const UniqueFd err_write(err[1]);
  const UniqueFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  request.stdin_fd = nothing.get();
  request.stdout_fd = out_write.get();
  request.stderr_fd = err_write.get();
  request.marker = "probe";
  const auto control = zygote.spawn(request);
  if (!control) {
    result.err = control.error().message;
    return result;
  }
  pollfd done{control->get(), POLLIN, 0};
  ProcessExit exit;
  const bool ended = poll(&done, 1, kTimeoutMs) == 1 && recv(control->get(), &exit, sizeof exit, 0) == sizeof exit;
  result.out = read_now(out_read.get());
  result.err = read_now(err_read.get());
  if (!ended) {
    result.err = "no end within 10 s; " + result.err;
  } else if (exit.spawn_error == 0 && WIFEXITED(exit.status)) {
    result.exit_status = WEXITSTATUS(exit.status);
  }
  return result;
}

}  // namespace roost::sandbox
