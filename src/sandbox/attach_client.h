// AttachClient: a sandbox's stream to its relay. Dials out, says hello, beats, and comes back after a loss with growing
// pauses. The stream is also the sink of the commands' frames.
//
// Used from one executor. Dies only after stop() or when the executor no longer runs; its destructor waits for gRPC's
// callbacks.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "sandbox/egress.h"
#include "sandbox/frame_sink.h"
#include "sandbox/grpc_common.h"
#include "sandbox/v1/sandbox.grpc.pb.h"

namespace roost::sandbox {

class AttachClient final : public FrameSink {
 public:
  struct Options {
    std::string relay;  // host:port
    std::string token;
    wire::Hello hello;
    std::chrono::milliseconds heartbeat{15'000};
    std::chrono::milliseconds retry_min{500};
    std::chrono::milliseconds retry_max{30'000};
  };
  struct Handlers {
    std::function<void(wire::Exec)> on_exec;
    std::function<void(std::uint64_t req_id)> on_abort;
    std::function<void()> on_attached;
    std::function<void()> on_detached;
  };

  AttachClient(boost::asio::any_io_executor executor, Options options);
  ~AttachClient() override;

  void start(Handlers handlers);
  // Sends what waits, as long as the relay takes it within `grace`, and leaves. Once.
  boost::asio::awaitable<void> stop(std::chrono::milliseconds grace);

  void send(wire::WorkerFrame frame) override;
  boost::asio::awaitable<void> writable() override;
  // Nobody waits for the stream any more: commands that are about to be killed must not hang on it.
  void stop_throttling();
  bool attached() const { return attached_; }

 private:
  class Stream;

  void connect();
  void accepted(const Stream* stream);
  void received(const Stream* stream, wire::ServerFrame frame);
  void written(const Stream* stream, bool ok);
  void ended(const Stream* stream, const grpc::Status& status);
  void pump();
  void beat();
  void lose_frames();

  boost::asio::any_io_executor executor_;
  Options options_;
  Handlers handlers_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<wire::SandboxWorker::Stub> stub_;
  ActiveCalls active_;
  std::shared_ptr<Stream> stream_;  // null between two connections
  Egress<wire::WorkerFrame> egress_;
  boost::asio::steady_timer retry_timer_;
  boost::asio::steady_timer beat_timer_;
  boost::asio::steady_timer writable_timer_;  // cancelled when the queue is short again
  boost::asio::steady_timer ended_timer_;     // cancelled when a stream has ended
  std::chrono::milliseconds pause_;
  std::chrono::steady_clock::time_point attached_at_;
  bool attached_ = false;
  bool throttling_ = true;
  bool stopping_ = false;
};

}  // namespace roost::sandbox
