#include "sandbox/zygote.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "sandbox/zygote_process.h"

namespace roost::sandbox {
namespace {

constexpr int kStartTimeoutMs = 10'000;

// The zygote tells by which path it reaches the workspaces, once it is ready.
Result<std::string> wait_ready(int fd) {
  pollfd ready{fd, POLLIN, 0};
  std::array<char, 4096> buffer;
  if (poll(&ready, 1, kStartTimeoutMs) != 1) return {ErrorKind::internal, "the zygote did not start within 10 s"};
  const ssize_t n = recv(fd, buffer.data(), buffer.size(), 0);
  if (n <= 0) return {ErrorKind::internal, "the zygote ended while it started"};
  return std::string(buffer.data(), static_cast<std::size_t>(n));
}

}  // namespace

Result<std::shared_ptr<Zygote>> Zygote::start(const Options& options) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return io_error("socketpair", errno);
  UniqueFd ours(pair[0]);
  UniqueFd theirs(pair[1]);
  const int buffer_bytes = 2 * static_cast<int>(kSpawnMessageBytes);
  setsockopt(ours.get(), SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
  const pid_t pid = fork();
  if (pid < 0) return io_error("fork", errno);
  if (pid == 0) zygote_main(theirs.release(), options.contained, options.workspace_root);
  theirs.reset();
  auto view = wait_ready(ours.get());
  if (!view) {
    ::kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return std::move(view).error();
  }
  return std::shared_ptr<Zygote>(new Zygote(std::move(ours), pid, *std::move(view)));
}

Zygote::~Zygote() {
  socket_.reset();
  waitpid(pid_, nullptr, 0);
}

Result<UniqueFd> Zygote::spawn(const SpawnRequest& request) {
  const std::string message = pack(request);
  if (message.size() > kSpawnMessageBytes) {
    return {ErrorKind::invalid_request,
            fmt::format("the command's arguments take more than {} bytes", kSpawnMessageBytes)};
  }
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) != 0)
    return io_error("socketpair", errno);
  UniqueFd ours(pair[0]);
  const UniqueFd theirs(pair[1]);
  std::array<int, 5> fds{theirs.get(), request.stdin_fd, request.stdout_fd, request.stderr_fd, request.script_fd};
  const std::size_t count = request.script_fd < 0 ? 4 : 5;

  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fds)> control{};
  iovec body{const_cast<char*>(message.data()), message.size()};
  msghdr header{};
  header.msg_iov = &body;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = CMSG_SPACE(count * sizeof(int));
  cmsghdr* rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(count * sizeof(int));
  std::memcpy(CMSG_DATA(rights), fds.data(), count * sizeof(int));
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket_.get(), &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return io_error("cannot reach the zygote", errno);
  return ours;
}

UniqueFd Zygote::watch_fd() const { return UniqueFd(fcntl(socket_.get(), F_DUPFD_CLOEXEC, 0)); }

void Zygote::kill(int control_fd) { static_cast<void>(send(control_fd, "K", 1, MSG_NOSIGNAL | MSG_DONTWAIT)); }

}  // namespace roost::sandbox
