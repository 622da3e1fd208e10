#include "sandbox/exec_runner.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <utility>

#include "core/check.h"
#include "core/ids.h"
#include "core/limits.h"
#include "core/log.h"

namespace roost::sandbox {
namespace asio = boost::asio;
namespace {

constexpr std::size_t kFinishedKept = 256;
constexpr std::uint32_t kMaxTimeout = 7 * 24 * 3600;

std::uint64_t fingerprint_of(const wire::Exec& exec) {
  const std::uint64_t command = XXH3_64bits(exec.command().data(), exec.command().size());
  const std::uint64_t input = XXH3_64bits_withSeed(exec.stdin().data(), exec.stdin().size(), command);
  return XXH3_64bits_withSeed(exec.workspace_key().data(), exec.workspace_key().size(), input);
}

}  // namespace

struct ExecRunner::Job {
  Job(asio::any_io_executor executor, wire::Exec given)
      : req_id(given.req_id()), fingerprint(fingerprint_of(given)), exec(std::move(given)), timer(executor) {}

  std::uint64_t req_id;
  std::uint64_t fingerprint;
  wire::Exec exec;
  asio::steady_timer timer;
  std::shared_ptr<Execution> execution;  // null while it waits
  std::string out;                       // what is held back when it does not stream
  std::string err;
  bool aborted = false;
  bool timed_out = false;
};

ExecRunner::ExecRunner(asio::any_io_executor executor, Options options, std::shared_ptr<Zygote> zygote,
                       Workspaces workspaces, Isolation isolation, FrameSink& sink)
    : executor_(executor),
      options_(options),
      zygote_(std::move(zygote)),
      workspaces_(std::move(workspaces)),
      isolation_(std::move(isolation)),
      sink_(sink),
      orphan_timer_(executor),
      idle_timer_(executor) {
  // A command that closes its stdin must not end the sandbox.
  std::signal(SIGPIPE, SIG_IGN);
}

ExecRunner::~ExecRunner() { ROOST_CHECK(running_ == 0, "a runner dies with commands running"); }

void ExecRunner::submit(wire::Exec exec) {
  const std::uint64_t id = exec.req_id();
  const std::uint64_t fingerprint = fingerprint_of(exec);
  if (const auto same = jobs_.find(id); same != jobs_.end()) {
    // Joined: the output from here on and the end go where all frames of this id go.
    if (same->second->fingerprint != fingerprint) refuse(id, fmt::format("req_id {} is running another command", id));
    return;
  }
  if (const auto done = finished_.find(id); done != finished_.end() && done->second.fingerprint == fingerprint) {
    return sink_.send(done->second.end);
  }
  if (stopping_) return refuse(id, "the sandbox is stopping");
  if (exec.command().empty()) return refuse(id, "command: missing");
  if (exec.command().find('\0') != std::string::npos) return refuse(id, "command: holds a NUL byte");
  if (exec.timeout_s() > kMaxTimeout) return refuse(id, fmt::format("timeout_s: at most {}", kMaxTimeout));
  if (!exec.workspace_key().empty() && !is_workspace_key(exec.workspace_key())) {
    return refuse(id, "workspace_key: 1 to 128 letters, digits or . _ ~ -, not starting with a dot");
  }
  const bool has_slot = running_ < options_.slots;
  if (!has_slot && queue_.size() >= options_.queue) return refuse(id, "busy: queue full");

  const auto job = std::make_shared<Job>(executor_, std::move(exec));
  jobs_.emplace(id, job);
  if (job->exec.timeout_s() > 0) {
    // From now, not from the start: the caller's deadline counts the waiting too.
    job->timer.expires_after(std::chrono::seconds(job->exec.timeout_s()));
    job->timer.async_wait([this, job](boost::system::error_code error) {
      if (!error) timed_out(job);
    });
  }
  if (has_slot) {
    start(job);
  } else {
    queue_.push_back(job);
  }
}

void ExecRunner::start(const std::shared_ptr<Job>& job) {
  const auto workspace = workspaces_.prepare(job->exec.workspace_key());
  if (!workspace) return end_early(job, workspace.error().message, 0);
  const auto execution = std::make_shared<Execution>(executor_, sink_, limits::kExecStreamBytes);
  const auto started = execution->start(
      *zygote_, isolation_.plan(job->exec.command(), *workspace), random_hex(8), std::move(*job->exec.mutable_stdin()),
      [this, job](wire::Stream stream, std::string data) { chunk(job, stream, std::move(data)); },
      [this, job](Execution::Outcome outcome) { ended(job, outcome); });
  if (!started) return end_early(job, "cannot start the command: " + started.error().message, 0);
  job->execution = execution;
  ++running_;
}

void ExecRunner::start_next() {
  while (running_ < options_.slots && !queue_.empty()) {
    const auto job = queue_.front();
    queue_.pop_front();
    start(job);
  }
}

void ExecRunner::chunk(const std::shared_ptr<Job>& job, wire::Stream stream, std::string data) {
  if (job->aborted || job->timed_out) return;
  if (!job->exec.streaming()) {
    (stream == wire::STREAM_STDERR ? job->err : job->out).append(data);
    return;
  }
  wire::WorkerFrame frame;
  wire::Chunk& chunk = *frame.mutable_chunk();
  chunk.set_req_id(job->req_id);
  chunk.set_data(std::move(data));
  chunk.set_stream(stream);
  sink_.send(std::move(frame));
}

void ExecRunner::ended(const std::shared_ptr<Job>& job, Execution::Outcome outcome) {
  --running_;
  job->execution.reset();
  if (job->timed_out) {
    end_early(job, fmt::format("timeout:{}", job->exec.timeout_s()), 0);
  } else if (job->aborted) {
    end_early(job, {}, -1);
  } else {
    for (auto [stream, held] : {std::pair{wire::STREAM_STDOUT, &job->out}, {wire::STREAM_STDERR, &job->err}}) {
      if (held->empty()) continue;
      wire::WorkerFrame frame;
      frame.mutable_chunk()->set_req_id(job->req_id);
      frame.mutable_chunk()->set_data(std::move(*held));
      frame.mutable_chunk()->set_stream(stream);
      sink_.send(std::move(frame));
    }
    wire::WorkerFrame end;
    end.mutable_end()->set_req_id(job->req_id);
    end.mutable_end()->set_exit_code(outcome.exit_code);
    end.mutable_end()->set_truncated(outcome.truncated);
    finish(job, std::move(end));
  }
  start_next();
  if (running_ == 0) idle_timer_.cancel();
}

void ExecRunner::timed_out(const std::shared_ptr<Job>& job) {
  // The timer may have run out just before the end cancelled it.
  if (const auto found = jobs_.find(job->req_id); found == jobs_.end() || found->second != job) return;
  job->timed_out = true;
  if (job->execution) return job->execution->kill();
  std::erase(queue_, job);
  end_early(job, fmt::format("timeout:{}", job->exec.timeout_s()), 0);
}

void ExecRunner::abort(std::uint64_t req_id) {
  const auto found = jobs_.find(req_id);
  if (found == jobs_.end()) return;
  const auto job = found->second;
  job->aborted = true;
  if (job->execution) return job->execution->kill();
  std::erase(queue_, job);
  end_early(job, {}, -1);
}

void ExecRunner::refuse(std::uint64_t req_id, std::string message) {
  wire::WorkerFrame frame;
  frame.mutable_error()->set_req_id(req_id);
  frame.mutable_error()->set_message(std::move(message));
  sink_.send(std::move(frame));
}

void ExecRunner::end_early(const std::shared_ptr<Job>& job, std::string error, int exit_code) {
  wire::WorkerFrame frame;
  if (error.empty()) {
    frame.mutable_end()->set_req_id(job->req_id);
    frame.mutable_end()->set_exit_code(exit_code);
  } else {
    frame.mutable_error()->set_req_id(job->req_id);
    frame.mutable_error()->set_message(std::move(error));
  }
  finish(job, std::move(frame));
}

void ExecRunner::finish(const std::shared_ptr<Job>& job, wire::WorkerFrame end) {
  job->timer.cancel();
  jobs_.erase(job->req_id);
  if (finished_.insert_or_assign(job->req_id, Finished{job->fingerprint, end}).second)
    finished_order_.push_back(job->req_id);
  if (finished_order_.size() > kFinishedKept) {
    finished_.erase(finished_order_.front());
    finished_order_.pop_front();
  }
  sink_.send(std::move(end));
}

void ExecRunner::attached() {
  attached_ = true;
  orphan_timer_.cancel();
}

void ExecRunner::detached() {
  attached_ = false;
  orphan_timer_.expires_after(options_.orphan_grace);
  orphan_timer_.async_wait([this](boost::system::error_code error) {
    if (error || attached_ || jobs_.empty()) return;
    log::warn("killing commands without a relay", {{"commands", jobs_.size()}});
    kill_all();
  });
}

void ExecRunner::kill_all() {
  std::vector<std::uint64_t> ids;
  for (const auto& [id, job] : jobs_) ids.push_back(id);
  for (const std::uint64_t id : ids) abort(id);
}

asio::awaitable<void> ExecRunner::stop(std::chrono::milliseconds grace) {
  stopping_ = true;
  orphan_timer_.cancel();
  boost::system::error_code ignored;
  if (!jobs_.empty()) {
    idle_timer_.expires_after(grace);
    co_await idle_timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    kill_all();
  }
  while (running_ > 0) {
    idle_timer_.expires_at(asio::steady_timer::time_point::max());
    co_await idle_timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

}  // namespace roost::sandbox
