// ChildProcess: one part of the stack as a process of its own. Its output (standard output and error) is read line by
// line; its end is reported once. The child leads a process group of its own, so that Ctrl-C in a terminal reaches only
// `roost up`, which then stops the parts in order; and it gets SIGTERM should `roost up` die without stopping it.
//
// Lives on one executor; starts processes by fork, so the calling process must have one thread.
#pragma once

#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace roost::cli {

struct ChildSpec {
  std::vector<std::string> argv;         // argv[0] is looked up in PATH
  std::vector<std::string> environment;  // NAME=value, added to ours
  std::string log_file;                  // each line is appended here; empty = nowhere
};

// How a process ended.
struct ChildExit {
  int code = 0;    // exit code, -1 when ended by a signal
  int signal = 0;  // 0 when it exited by itself
  std::string describe() const;
};

class ChildProcess {
 public:
  using OnLine = std::function<void(std::string_view line)>;
  using OnExit = std::function<void(ChildExit)>;

  // on_exit comes once, after the lines that the process itself wrote; lines of processes that it left running may
  // follow (a crashed host's workers finish their turns). Neither is called from inside start().
  static Result<std::unique_ptr<ChildProcess>> start(boost::asio::any_io_executor executor, const ChildSpec& spec,
                                                     OnLine on_line, OnExit on_exit);
  // Kills the process's group if it still runs, without waiting.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;

  pid_t pid() const;
  bool running() const;
  void signal(int number);  // to the process; nothing when it has ended
  void kill_group();        // SIGKILL to all it has started in its group

 private:
  struct Impl;
  explicit ChildProcess(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace roost::cli
