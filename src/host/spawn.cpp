#include "host/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

extern char** environ;

namespace roost::host {
namespace {

std::string_view name_of(std::string_view entry) { return entry.substr(0, entry.find('=')); }

// This process's environment with `over` laid over it.
std::vector<std::string> merged_environment(const std::vector<std::string>& over) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const bool replaced =
        std::ranges::any_of(over, [&](const std::string& o) { return name_of(o) == name_of(*entry); });
    if (!replaced) out.emplace_back(*entry);
  }
  // The last of a name wins in `over` as well.
  for (auto it = over.begin(); it != over.end(); ++it) {
    const bool again =
        std::any_of(it + 1, over.end(), [&](const std::string& o) { return name_of(o) == name_of(*it); });
    if (!again) out.push_back(*it);
  }
  return out;
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (const std::string& s : strings) out.push_back(const_cast<char*>(s.c_str()));
  out.push_back(nullptr);
  return out;
}

// A duplicate above the numbers that the child will use, so that the dup2()s in the child cannot overwrite a source.
UniqueFd out_of_the_way(int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 16)); }

struct SpawnPlan {
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
  SpawnPlan() {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
};

}  // namespace

Result<Spawned> spawn_worker(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                             int channel_fd, int page_fd) {
  const UniqueFd channel = out_of_the_way(channel_fd);
  const UniqueFd page = out_of_the_way(page_fd);
  if (!channel || !page) return io_error("descriptors for a worker", errno);

  SpawnPlan plan;
  ::posix_spawn_file_actions_addopen(&plan.actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&plan.actions, channel.get(), kWorkerChannelFd);
  ::posix_spawn_file_actions_adddup2(&plan.actions, page.get(), kWorkerPageFd);
  sigset_t none;
  sigset_t all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&plan.attributes, &none);
  ::posix_spawnattr_setsigdefault(&plan.attributes, &all);
  ::posix_spawnattr_setflags(&plan.attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  const std::vector<std::string> full_environment = merged_environment(environment);
  const std::vector<char*> argv = pointers(command);
  const std::vector<char*> envp = pointers(full_environment);
  Spawned out;
  if (const int rc = ::posix_spawn(&out.pid, argv[0], &plan.actions, &plan.attributes, argv.data(), envp.data());
      rc != 0) {
    return io_error(fmt::format("starting {}", command[0]), rc);
  }
  out.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, out.pid, 0)));
  if (!out.pidfd) {
    const int why = errno;
    ::kill(out.pid, SIGKILL);
    ::waitpid(out.pid, nullptr, 0);
    return io_error("pidfd_open", why);
  }
  return out;
}

Exit reap(const Spawned& process) {
  int status = 0;
  pid_t rc = -1;
  do {
    rc = ::waitpid(process.pid, &status, 0);
  } while (rc < 0 && errno == EINTR);
  if (rc != process.pid) return {};
  return WIFSIGNALED(status) ? Exit{0, WTERMSIG(status)} : Exit{WEXITSTATUS(status), 0};
}

}  // namespace roost::host
