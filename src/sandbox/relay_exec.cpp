#include "sandbox/relay_exec.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "core/limits.h"
#include "sandbox/egress.h"

namespace roost::sandbox {
namespace {

namespace asio = boost::asio;

// Both streams of a command up to their cap, and the framing: a sandbox that keeps the cap never fills it.
constexpr std::size_t kEgressBytes = 2 * limits::kExecStreamBytes + 1024 * 1024;

grpc::StatusCode code_of(ExecCall::Refusal why) {
  switch (why) {
    case ExecCall::Refusal::no_such_sandbox:
      return grpc::StatusCode::NOT_FOUND;
    case ExecCall::Refusal::busy:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case ExecCall::Refusal::too_large:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case ExecCall::Refusal::worker_gone:
      return grpc::StatusCode::UNAVAILABLE;
    case ExecCall::Refusal::slow_reader:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
  }
  return grpc::StatusCode::INTERNAL;
}

// As AttachStream: On… methods post, all else runs on the loop, Finish once and never beside a write.
class ExecStream final : public grpc::ServerWriteReactor<wire::ExecEvent>,
                         public ExecCall,
                         public std::enable_shared_from_this<ExecStream> {
 public:
  ExecStream(RelayContext& context, grpc::CallbackServerContext* call, const wire::ExecRequest* request)
      : context_(context),
        token_(bearer_token(*call)),
        peer_(call->peer()),
        request_(*request),
        egress_(kEgressBytes) {}

  void open() {
    self_ = shared_from_this();
    context_.active.enter();
    post([this] { begin(); });
  }

  void OnWriteDone(bool ok) override {
    post([this, ok] { write_done(ok); });
  }
  void OnCancel() override {
    post([this] { cancelled(); });
  }
  void OnDone() override {
    ActiveCalls& active = context_.active;
    self_.reset();
    active.leave();
  }

  std::uint64_t client_req_id() const override { return client_req_id_; }
  std::string_view peer() const override { return peer_; }

  bool chunk(wire::Chunk chunk) override {
    wire::ExecEvent event;
    *event.mutable_chunk() = std::move(chunk);
    if (!egress_.offer(std::move(event))) return false;
    pump();
    return true;
  }
  void end(wire::End end) override {
    wire::ExecEvent event;
    *event.mutable_end() = end;
    egress_.force(std::move(event));
    close(grpc::Status::OK);
  }
  void error(wire::ExecError error) override {
    grpc::Status status(grpc::StatusCode::INTERNAL, RelayContext::status_text(error.message()));
    wire::ExecEvent event;
    *event.mutable_error() = std::move(error);
    egress_.force(std::move(event));
    close(std::move(status));
  }
  void refuse(Refusal why, std::string message) override {
    close(grpc::Status(code_of(why), RelayContext::status_text(message)));
  }

 private:
  template <class F>
  void post(F work) {
    asio::post(context_.executor, [self = shared_from_this(), work = std::move(work)]() mutable { work(); });
  }

  void begin() {
    if (closing_) return finish_when_drained();
    if (!context_.auth.may_exec(token_)) {
      return close(grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "exec: missing or wrong token"));
    }
    client_req_id_ = request_.exec().req_id();
    context_.hub.exec(shared_from_this(), request_.sandbox_id(), std::move(*request_.mutable_exec()));
    request_.Clear();
  }

  void pump() {
    if (finished_ || broken_) return;
    if (const wire::ExecEvent* event = egress_.next()) StartWrite(event);
  }
  void write_done(bool ok) {
    egress_.written();
    if (!ok) return cancelled();
    pump();
    finish_when_drained();
  }
  // The client is gone: nothing that waits will be read.
  void cancelled() {
    broken_ = true;
    context_.hub.drop_call(this);
    close(grpc::Status(grpc::StatusCode::CANCELLED, "cancelled"));
  }
  void close(grpc::Status status) {
    if (!std::exchange(closing_, true)) status_ = std::move(status);
    pump();
    finish_when_drained();
  }
  void finish_when_drained() {
    if (!closing_ || finished_ || egress_.writing() || (!egress_.empty() && !broken_)) return;
    finished_ = true;
    Finish(status_);
  }

  RelayContext& context_;
  const std::string token_;
  const std::string peer_;
  wire::ExecRequest request_;
  std::uint64_t client_req_id_ = 0;
  Egress<wire::ExecEvent> egress_;
  grpc::Status status_;
  bool closing_ = false;
  bool broken_ = false;
  bool finished_ = false;
  std::shared_ptr<ExecStream> self_;
};

grpc::Status abort_call(RelayContext& context, const std::string& token, const wire::AbortRequest& request,
                        const std::string& peer) {
  if (!context.auth.may_exec(token)) return {grpc::StatusCode::UNAUTHENTICATED, "abort: missing or wrong token"};
  const auto done = context.hub.abort(request.sandbox_id(), request.req_id(), peer);
  if (done) return grpc::Status::OK;
  const bool missing = done.error().kind == ErrorKind::not_found;
  return {missing ? grpc::StatusCode::NOT_FOUND : grpc::StatusCode::FAILED_PRECONDITION, done.error().message};
}

}  // namespace

grpc::ServerWriteReactor<wire::ExecEvent>* ExecService::Exec(grpc::CallbackServerContext* call,
                                                             const wire::ExecRequest* request) {
  const auto stream = std::make_shared<ExecStream>(context_, call, request);
  stream->open();
  return stream.get();
}

grpc::ServerUnaryReactor* ExecService::Abort(grpc::CallbackServerContext* call, const wire::AbortRequest* request,
                                             wire::AbortResponse* /*response*/) {
  auto* reactor = call->DefaultReactor();
  context_.active.enter();
  // The request lives until Finish.
  asio::post(context_.executor,
             [this, reactor, request, token = bearer_token(*call), peer = std::string(call->peer())] {
               reactor->Finish(abort_call(context_, token, *request, peer));
               context_.active.leave();
             });
  return reactor;
}

}  // namespace roost::sandbox
