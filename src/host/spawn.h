// Starts a worker process.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/result.h"
#include "core/unique_fd.h"

namespace roost::host {

struct Spawned {
  pid_t pid = -1;
  UniqueFd pidfd;  // readable when the process has ended
};

// The descriptors that a worker inherits, under these numbers; all others are close-on-exec.
inline constexpr int kWorkerChannelFd = 3;
inline constexpr int kWorkerPageFd = 4;

// `command` is argv, [0] a path. `environment` (NAME=value) goes over this process's own; an entry of the same name
// replaces it. Signals start at their defaults, unblocked.
Result<Spawned> spawn_worker(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                             int channel_fd, int page_fd);

// How a process ended.
struct Exit {
  int code = 0;    // its exit code; meaningless when signal is not 0
  int signal = 0;  // what killed it
};
// Collects an ended process; no zombie stays.
Exit reap(const Spawned& process);

}  // namespace roost::host
