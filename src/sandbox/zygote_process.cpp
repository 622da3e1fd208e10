#include "sandbox/zygote_process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <list>
#include <sstream>
#include <utility>

namespace roost::sandbox {
namespace {

constexpr int kLastMomentMs = 5000;
constexpr int kDescriptorsPerRequest = 5;

std::string read_file(const std::string& path) {
  std::string text;
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 4096> buffer;
  for (ssize_t n = 1; fd && n > 0;) {
    n = read(fd.get(), buffer.data(), buffer.size());
    if (n > 0) text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  return text;
}

std::vector<pid_t> children_of(pid_t pid) {
  const std::string id = std::to_string(pid);
  std::istringstream list(read_file("/proc/" + id + "/task/" + id + "/children"));
  std::vector<pid_t> pids;
  for (pid_t child = 0; list >> child;) pids.push_back(child);
  return pids;
}

void kill_tree(pid_t pid) {
  // Children first: they are found through their parent.
  for (const pid_t child : children_of(pid)) kill_tree(child);
  ::kill(pid, SIGKILL);
}

struct Command {
  pid_t pid = 0;
  UniqueFd control;
  std::string marker;
  bool killed = false;
  bool exited = false;
  int status = 0;
  std::vector<pid_t> left_behind;  // killed, not reaped yet
};

class ZygoteLoop {
 public:
  ZygoteLoop(int socket, bool contained) : socket_(socket), contained_(contained) {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_SETMASK, &child, nullptr);
    signals_ = UniqueFd(signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  void run() {
    while (serving_ || !commands_.empty()) {
      std::vector<pollfd> polled{{serving_ ? socket_.get() : -1, POLLIN, 0}, {signals_.get(), POLLIN, 0}};
      std::vector<Command*> watched;
      for (Command& c : commands_) {
        if (c.killed) continue;
        polled.push_back({c.control.get(), POLLIN, 0});
        watched.push_back(&c);
      }
      const int ready = poll(polled.data(), polled.size(), serving_ ? -1 : kLastMomentMs);
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) return;
      // A message on a control socket is 'K', its end is the sandbox letting go: both kill.
      for (std::size_t i = 0; i < watched.size(); ++i) {
        if (polled[i + 2].revents != 0) kill_command(*watched[i]);
      }
      if (polled[1].revents != 0) reap();
      if (polled[0].revents != 0) serve();
    }
  }

 private:
  void serve() {
    SpawnRequest request;
    std::array<UniqueFd, kDescriptorsPerRequest> fds;
    if (!receive(request, fds)) return;
    Command command;
    command.control = std::move(fds[0]);
    command.marker = request.marker;
    command.pid = fork();
    if (command.pid == 0) exec_command(request);
    if (command.pid < 0) return report(command, {errno, 0});
    setpgid(command.pid, command.pid);
    commands_.push_back(std::move(command));
  }

  // False: nothing usable came; at the end of the socket everything is killed.
  bool receive(SpawnRequest& request, std::array<UniqueFd, kDescriptorsPerRequest>& fds) {
    buffer_.resize(kSpawnMessageBytes);
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kDescriptorsPerRequest * sizeof(int))> control{};
    iovec body{buffer_.data(), buffer_.size()};
    msghdr header{};
    header.msg_iov = &body;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    const ssize_t n = recvmsg(socket_.get(), &header, MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return false;
    if (n <= 0) {
      serving_ = false;
      for (Command& c : commands_) kill_command(c);
      return false;
    }
    std::size_t count = 0;
    if (const cmsghdr* rights = CMSG_FIRSTHDR(&header); rights != nullptr && rights->cmsg_type == SCM_RIGHTS) {
      count = std::min<std::size_t>((rights->cmsg_len - CMSG_LEN(0)) / sizeof(int), fds.size());
      std::array<int, kDescriptorsPerRequest> raw{};
      std::memcpy(raw.data(), CMSG_DATA(rights), count * sizeof(int));
      for (std::size_t i = 0; i < count; ++i) fds[i].reset(raw[i]);
    }
    if (count < 4 || !unpack({buffer_.data(), static_cast<std::size_t>(n)}, request)) return false;
    request.stdin_fd = fds[1].get();
    request.stdout_fd = fds[2].get();
    request.stderr_fd = fds[3].get();
    request.script_fd = fds[4].get();
    return true;
  }

  void kill_command(Command& command) {
    if (std::exchange(command.killed, true) || command.exited) return;
    if (!contained_) kill_tree(command.pid);
    ::kill(-command.pid, SIGKILL);
    ::kill(command.pid, SIGKILL);
  }

  void reap() {
    signalfd_siginfo drained;
    while (read(signals_.get(), &drained, sizeof drained) > 0) {
    }
    int status = 0;
    for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
      for (Command& c : commands_) {
        std::erase(c.left_behind, pid);
        if (c.pid != pid || c.exited) continue;
        c.exited = true;
        c.status = status;
        // Nothing survives a command: what it left in the background ends with it.
        ::kill(-pid, SIGKILL);
      }
    }
    commands_.remove_if([this](Command& c) {
      if (!c.exited || !c.left_behind.empty()) return false;
      // Looked for again after each round: what was just killed may have forked.
      kill_left_behind(c);
      if (!c.left_behind.empty()) return false;
      report(c, {0, c.status});
      return true;
    });
  }

  // Orphans are our children, because we are the subreaper. Of contained commands only the first process of a namespace
  // can be one, whose command has ended; otherwise the marker in the environment tells whose it is.
  void kill_left_behind(Command& command) {
    const std::string mark = "ROOST_EXEC=" + command.marker;
    for (const pid_t pid : children_of(getpid())) {
      const bool is_command =
          std::any_of(commands_.begin(), commands_.end(), [&](const Command& c) { return c.pid == pid && !c.exited; });
      if (is_command) continue;
      if (!contained_ && read_file("/proc/" + std::to_string(pid) + "/environ").find(mark) == std::string::npos)
        continue;
      kill_tree(pid);
      command.left_behind.push_back(pid);
    }
  }

  static void report(const Command& command, ProcessExit exit) {
    static_cast<void>(send(command.control.get(), &exit, sizeof exit, MSG_NOSIGNAL | MSG_DONTWAIT));
  }

  UniqueFd socket_;
  bool contained_;
  bool serving_ = true;
  UniqueFd signals_;
  std::list<Command> commands_;
  std::string buffer_;
};

// Nothing of the sandbox process may live on here: descriptors (listening sockets, other zygotes), signal handling,
// terminal.
int leave_parent(int socket) {
  setsid();  // Ctrl-C in the terminal is the sandbox's to handle.
  prctl(PR_SET_NAME, "roost-zygote", 0, 0, 0);
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  for (int number = 1; number < NSIG; ++number) std::signal(number, SIG_DFL);
  std::signal(SIGPIPE, SIG_IGN);
  constexpr int kSocket = 3;
  if (socket != kSocket) dup2(socket, kSocket);
  fcntl(kSocket, F_SETFD, FD_CLOEXEC);
  close_range(kSocket + 1, ~0U, 0);
  return kSocket;
}

}  // namespace

void zygote_main(int socket, bool contained, const std::string& workspace_root) {
  const int own = leave_parent(socket);
  // Commands without isolation see the machine's mounts as they are.
  const std::string view = contained ? make_workspace_view(workspace_root) : workspace_root;
  if (send(own, view.data(), view.size(), MSG_NOSIGNAL) < 0) _exit(1);
  ZygoteLoop(own, contained).run();
  _exit(0);
}

}  // namespace roost::sandbox
