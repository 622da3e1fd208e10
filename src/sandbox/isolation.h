// Isolation: how a command is kept apart from the machine and from other workspaces. With bubblewrap: new user, mount,
// pid, ipc, uts and (unless allowed) net namespaces, a read-only system, a private /tmp, its workspace as the only
// writable folder, a clean environment, no new privileges, an unprivileged uid where the sandbox runs as root. What
// works on this machine is found by trying, once, at the start.
//
// Immutable after find(); any thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/result.h"
#include "sandbox/probe_command.h"
#include "sandbox/workspace.h"
#include "sandbox/zygote.h"

namespace roost::sandbox {

class Isolation {
 public:
  enum class Mode { bwrap, none };
  struct Options {
    Mode mode = Mode::bwrap;
    bool net = false;             // commands may use the network
    std::string bwrap_path = {};  // empty = looked for in PATH
  };

  // Runs a probe command through `zygote`, and makes the uid that works the workspaces' owner. Error bad_config:
  // bubblewrap is missing or cannot isolate here; the message says how to allow it, and of --isolation=none.
  static Result<Isolation> find(const Options& options, Zygote& zygote, Workspaces& workspaces);

  // `bash -c command` in the workspace `name`. A long command travels on kScriptFd instead of in the arguments: then
  // `script` holds it.
  struct Plan {
    SpawnRequest request;  // descriptors and marker are the caller's to fill
    std::string script;
  };
  Plan plan(const std::string& command, const std::string& workspace_name) const;

  uid_t run_uid() const { return run_uid_; }
  // "bwrap", "bwrap-noproc", "none": for logs and labels.
  std::string name() const;

 private:
  ProbeResult probe(Zygote& zygote, const Workspaces& workspaces) const;
  std::vector<std::string> bwrap_arguments(const std::string& workspace_path) const;

  Options options_;
  std::string view_;   // the workspace root as commands reach it
  std::string etc_;    // folder with the commands' passwd and group
  uid_t run_uid_ = 0;  // 0 = the sandbox's own
  bool fresh_proc_ = true;
  bool lock_userns_ = true;  // no user namespaces inside
};

}  // namespace roost::sandbox
