// Zygote: a small single-threaded process that starts every command, so that the threaded sandbox process never forks.
// It is the parent and the subreaper of what it starts, kills what it is told to, and reports an exit only when nothing
// of the command is left: neither its process group nor what ran away from it.
//
//   sandbox ── one socket: request + stdio descriptors ──▶ zygote ── fork, exec ──▶ command
//           ◀─ one socket per command: exit status; 'K' or closing it kills ──
//
// When the sandbox process dies, however it dies, the zygote kills all commands and ends.
// start() must be called before the process has threads; spawn() may be called from any thread.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "core/result.h"
#include "core/unique_fd.h"

namespace roost::sandbox {

struct SpawnRequest {
  std::vector<std::string> argv;  // argv[0] is an absolute path
  std::vector<std::string> env;   // NAME=value; all of it
  std::string cwd;
  // Whose process this is, in its environment as ROOST_EXEC: what leaves its group is found by it.
  std::string marker;
  uid_t run_uid = 0;  // 0 = as the sandbox
  // Given to the command as 0, 1, 2 and, unless -1, 9. Borrowed.
  int stdin_fd = -1;
  int stdout_fd = -1;
  int stderr_fd = -1;
  int script_fd = -1;
};

inline constexpr int kScriptFd = 9;

// What comes over a command's control socket, once: `spawn_error` is an errno (0 = it ran), `status` as of waitpid.
struct ProcessExit {
  int spawn_error = 0;
  int status = 0;
};

class Zygote {
 public:
  struct Options {
    // Commands run in a pid namespace of their own (bubblewrap): all that is left behind by one is its namespace.
    bool contained = true;
    // Holds the workspaces. As root the zygote mounts it at a path that every uid can reach, in a mount namespace of
    // its own.
    std::string workspace_root;
  };

  // Forks. Error: internal, with the reason.
  static Result<std::shared_ptr<Zygote>> start(const Options& options);
  ~Zygote();
  Zygote(const Zygote&) = delete;

  // The command's control socket (non-blocking, one ProcessExit to read). Closing it kills the command.
  Result<UniqueFd> spawn(const SpawnRequest& request);
  static void kill(int control_fd);

  // A descriptor that becomes readable when the zygote has ended.
  UniqueFd watch_fd() const;

  // The path by which commands reach the workspace root.
  const std::string& workspace_view() const { return workspace_view_; }

 private:
  Zygote(UniqueFd socket, pid_t pid, std::string view)
      : socket_(std::move(socket)), pid_(pid), workspace_view_(std::move(view)) {}

  UniqueFd socket_;
  pid_t pid_;
  std::string workspace_view_;
};

}  // namespace roost::sandbox
