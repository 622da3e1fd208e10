#include "sandbox/relay_attach.h"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "core/limits.h"
#include "core/log.h"
#include "sandbox/egress.h"

namespace roost::sandbox {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kEgressBytes = 4 * limits::kGrpcMessageBytes;
constexpr auto kHelloDeadline = std::chrono::seconds(10);

// gRPC calls the On… methods on its own threads; they only post. Everything else runs on the loop. The stream owns
// itself from open() until OnDone; Finish is called exactly once, never while a write is in flight.
class AttachStream final : public grpc::ServerBidiReactor<wire::WorkerFrame, wire::ServerFrame>,
                           public SandboxLink,
                           public std::enable_shared_from_this<AttachStream> {
 public:
  AttachStream(RelayContext& context, grpc::CallbackServerContext* call)
      : context_(context),
        call_(call),
        token_(bearer_token(*call)),
        egress_(kEgressBytes),
        hello_timer_(context.executor) {}

  void open() {
    self_ = shared_from_this();
    context_.active.enter();
    post([this] { begin(); });
  }

  void OnReadDone(bool ok) override {
    post([this, ok] { read_done(ok); });
  }
  void OnWriteDone(bool ok) override {
    post([this, ok] { write_done(ok); });
  }
  void OnCancel() override {
    post([this] { end(grpc::Status(grpc::StatusCode::CANCELLED, "the stream was cancelled")); });
  }
  void OnDone() override {
    post([this] { hello_timer_.cancel(); });
    ActiveCalls& active = context_.active;
    self_.reset();
    active.leave();
  }

  bool offer(wire::ServerFrame frame) override {
    if (ending_ || !egress_.offer(std::move(frame))) return false;
    pump();
    return true;
  }
  void force(wire::ServerFrame frame) override {
    if (ending_) return;
    egress_.force(std::move(frame));
    pump();
  }
  void close(std::string reason) override {
    // Off this call's stack: the hub is walking its entries.
    post([this, reason = std::move(reason)] { end(grpc::Status(grpc::StatusCode::UNAVAILABLE, reason)); });
  }

 private:
  template <class F>
  void post(F work) {
    asio::post(context_.executor, [self = shared_from_this(), work = std::move(work)]() mutable { work(); });
  }

  void begin() {
    if (!context_.auth.known_attach_token(token_)) {
      log::warn("attach refused", {{"reason", token_.empty() ? "no token" : "wrong token"}, {"peer", call_->peer()}});
      return end(grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "attach: missing or wrong token"));
    }
    hello_timer_.expires_after(kHelloDeadline);
    hello_timer_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
      const auto stream = weak.lock();
      if (error || !stream || stream->attached_) return;
      stream->end(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "no hello within 10 s"));
    });
    StartRead(&incoming_);
  }

  void read_done(bool ok) {
    if (!ok) return end(grpc::Status::OK);
    if (ending_) return;
    if (attached_) {
      context_.hub.frame(this, std::move(incoming_));
    } else if (!register_sandbox()) {
      return;
    }
    incoming_.Clear();
    StartRead(&incoming_);
  }

  bool register_sandbox() {
    const auto refuse = [this](grpc::StatusCode code, const std::string& message) {
      log::warn("attach refused",
                {{"sandbox", incoming_.hello().sandbox_id()}, {"reason", message}, {"peer", call_->peer()}});
      end(grpc::Status(code, message));
      return false;
    };
    if (!incoming_.has_hello()) return refuse(grpc::StatusCode::INVALID_ARGUMENT, "the first frame must be a hello");
    const wire::Hello& hello = incoming_.hello();
    if (!context_.auth.may_attach(hello.sandbox_id(), token_)) {
      return refuse(grpc::StatusCode::UNAUTHENTICATED, "attach: the token is not this sandbox's");
    }
    if (const auto attached = context_.hub.attach(shared_from_this(), hello); !attached) {
      const bool conflict = attached.error().kind == ErrorKind::subject_conflict;
      return refuse(conflict ? grpc::StatusCode::ALREADY_EXISTS : grpc::StatusCode::INVALID_ARGUMENT,
                    attached.error().message);
    }
    attached_ = true;
    hello_timer_.cancel();
    // Tells the sandbox that it is in: the contract has no answer to a Hello.
    StartSendInitialMetadata();
    return true;
  }

  void pump() {
    if (ending_) return;
    if (const wire::ServerFrame* frame = egress_.next()) StartWrite(frame);
  }

  void write_done(bool ok) {
    egress_.written();
    if (ending_) return finish();
    if (!ok) return end(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the stream broke"));
    pump();
  }

  void end(grpc::Status status) {
    if (ending_) return;
    ending_ = true;
    status_ = std::move(status);
    context_.hub.detach(this);
    if (egress_.writing()) {
      call_->TryCancel();  // A write that the peer does not take would hold the stream open.
    } else {
      finish();
    }
  }
  void finish() {
    if (!std::exchange(finished_, true)) Finish(status_);
  }

  RelayContext& context_;
  grpc::CallbackServerContext* call_;
  const std::string token_;
  Egress<wire::ServerFrame> egress_;
  asio::steady_timer hello_timer_;
  wire::WorkerFrame incoming_;
  grpc::Status status_;
  bool attached_ = false;
  bool ending_ = false;
  bool finished_ = false;
  std::shared_ptr<AttachStream> self_;
};

}  // namespace

grpc::ServerBidiReactor<wire::WorkerFrame, wire::ServerFrame>* AttachService::Attach(
    grpc::CallbackServerContext* call) {
  const auto stream = std::make_shared<AttachStream>(context_, call);
  stream->open();
  return stream.get();
}

}  // namespace roost::sandbox
