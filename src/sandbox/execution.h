// Execution: one running command, from its start to the moment when nothing of it is left. Feeds its stdin, reads its
// output in chunks, stops it at the cap.
//
// Lives in a shared_ptr that its own coroutines hold; used from one executor. `on_done` runs once, after the last
// chunk.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "core/result.h"
#include "sandbox/frame_sink.h"
#include "sandbox/isolation.h"
#include "sandbox/zygote.h"

namespace roost::sandbox {

class Execution : public std::enable_shared_from_this<Execution> {
 public:
  struct Outcome {
    int exit_code = -1;  // < 0: minus the signal
    bool truncated = false;
  };
  using OnChunk = std::function<void(wire::Stream, std::string)>;
  using OnDone = std::function<void(Outcome)>;

  Execution(boost::asio::any_io_executor executor, FrameSink& sink, std::size_t cap_bytes);

  // Error: the command could not be started; then nothing is called.
  Result<void> start(Zygote& zygote, Isolation::Plan plan, std::string marker, std::string stdin_bytes,
                     OnChunk on_chunk, OnDone on_done);
  // Kills everything of the command; output that was not read yet is dropped. on_done still comes, when it is dead.
  void kill();

 private:
  struct Output {
    explicit Output(boost::asio::any_io_executor executor) : pipe(executor) {}
    boost::asio::posix::stream_descriptor pipe;
    std::size_t bytes = 0;
    bool open = false;
  };

  boost::asio::awaitable<void> feed(std::string bytes);
  boost::asio::awaitable<void> pump(wire::Stream which);
  boost::asio::awaitable<void> wait_exit();
  Output& output(wire::Stream which) { return which == wire::STREAM_STDERR ? err_ : out_; }
  void close_outputs();
  void finish_when_all_ended();
  void limit_drain();

  boost::asio::any_io_executor executor_;
  FrameSink& sink_;
  std::size_t cap_bytes_;
  boost::asio::posix::stream_descriptor stdin_;
  boost::asio::posix::stream_descriptor control_;
  Output out_;
  Output err_;
  boost::asio::steady_timer drain_timer_;
  std::size_t drained_at_ = 0;
  OnChunk on_chunk_;
  OnDone on_done_;
  Outcome outcome_;
  bool exited_ = false;
  bool killed_ = false;
};

}  // namespace roost::sandbox
