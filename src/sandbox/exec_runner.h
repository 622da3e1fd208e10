// ExecRunner: the commands of one sandbox. `slots` run at once, `queue` wait, more are refused. Knows what ran under
// which request id, so that a repeated request joins the running command or gets the end of the finished one instead of
// running it twice.
//
// Invariants: a job is in `jobs_` from its acceptance to its end frame; `running_` <= slots; `queue_` holds exactly the
// jobs that have not started. Used from one executor; stop() must have finished before it dies.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "sandbox/execution.h"
#include "sandbox/frame_sink.h"
#include "sandbox/isolation.h"
#include "sandbox/workspace.h"
#include "sandbox/zygote.h"

namespace roost::sandbox {

class ExecRunner {
 public:
  struct Options {
    std::size_t slots = 4;
    std::size_t queue = 64;
    std::chrono::milliseconds orphan_grace{30'000};  // how long commands go on without a relay
  };

  ExecRunner(boost::asio::any_io_executor executor, Options options, std::shared_ptr<Zygote> zygote,
             Workspaces workspaces, Isolation isolation, FrameSink& sink);
  ~ExecRunner();
  ExecRunner(const ExecRunner&) = delete;

  void submit(wire::Exec exec);
  void abort(std::uint64_t req_id);
  // Without a relay nobody can get the output: commands that are not joined within the grace are killed.
  void attached();
  void detached();

  // Takes no more commands; kills what still runs after `grace`, and waits for its end.
  boost::asio::awaitable<void> stop(std::chrono::milliseconds grace);

  std::size_t running() const { return running_; }
  std::size_t queued() const { return queue_.size(); }

 private:
  struct Job;
  struct Finished {
    std::uint64_t fingerprint;
    wire::WorkerFrame end;
  };

  void start(const std::shared_ptr<Job>& job);
  void start_next();
  void chunk(const std::shared_ptr<Job>& job, wire::Stream stream, std::string data);
  void ended(const std::shared_ptr<Job>& job, Execution::Outcome outcome);
  void timed_out(const std::shared_ptr<Job>& job);
  void refuse(std::uint64_t req_id, std::string message);
  void finish(const std::shared_ptr<Job>& job, wire::WorkerFrame end);
  void end_early(const std::shared_ptr<Job>& job, std::string error, int exit_code);
  void kill_all();

  boost::asio::any_io_executor executor_;
  Options options_;
  std::shared_ptr<Zygote> zygote_;
  Workspaces workspaces_;
  Isolation isolation_;
  FrameSink& sink_;
  std::map<std::uint64_t, std::shared_ptr<Job>> jobs_;
  std::deque<std::shared_ptr<Job>> queue_;
  std::size_t running_ = 0;
  std::map<std::uint64_t, Finished> finished_;
  std::deque<std::uint64_t> finished_order_;
  boost::asio::steady_timer orphan_timer_;
  boost::asio::steady_timer idle_timer_;
  bool attached_ = false;
  bool stopping_ = false;
};

}  // namespace roost::sandbox
