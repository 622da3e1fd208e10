#include "sandbox/attach_client.h"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <limits>
#include <mutex>
#include <random>
#include <utility>

#include "core/log.h"

namespace roost::sandbox {
namespace asio = boost::asio;
namespace {

constexpr std::size_t kHighWater = 1024 * 1024;
// A session of this length counts as a success: the next pause is short again.
constexpr auto kGoodSession = std::chrono::seconds(30);

}  // namespace

// One gRPC stream. gRPC calls the On… methods on its own threads; they post. A hold lets us start operations from the
// loop; it is released once, when reading has ended or the owner leaves. The stream owns itself until OnDone.
class AttachClient::Stream final : public grpc::ClientBidiReactor<wire::WorkerFrame, wire::ServerFrame>,
                                   public std::enable_shared_from_this<AttachClient::Stream> {
 public:
  explicit Stream(AttachClient& owner) : owner_(owner), executor_(owner.executor_) {}

  void open(const std::string& token) {
    self_ = shared_from_this();
    owner_.active_.enter();
    context_.AddMetadata("authorization", "Bearer " + token);
    owner_.stub_->async()->Attach(&context_, this);
    AddHold();
    StartRead(&incoming_);
    StartCall();
  }

  // From the loop.
  void write(const wire::WorkerFrame* frame) {
    const std::lock_guard lock(mutex_);
    if (!released_) StartWrite(frame);
  }
  void read_next() {
    const std::lock_guard lock(mutex_);
    if (!released_) StartRead(&incoming_);
  }
  bool released() {
    const std::lock_guard lock(mutex_);
    return released_;
  }
  // No operation is started afterwards; OnDone comes.
  void release(bool cancel) {
    // The last hold lets OnDone run on another thread, which drops the call's hold on itself.
    const auto keep = shared_from_this();
    const std::lock_guard lock(mutex_);
    if (cancel) context_.TryCancel();
    if (!std::exchange(released_, true)) RemoveHold();
  }

  void OnReadInitialMetadataDone(bool ok) override {
    if (!ok) return;
    post([this] { owner_.accepted(this); });
  }
  void OnReadDone(bool ok) override {
    if (!ok) return release(false);
    post([this] {
      owner_.received(this, std::move(incoming_));
      incoming_.Clear();
      read_next();
    });
  }
  void OnWriteDone(bool ok) override {
    post([this, ok] { owner_.written(this, ok); });
  }
  void OnDone(const grpc::Status& status) override {
    post([this, status] { owner_.ended(this, status); });
    ActiveCalls& active = owner_.active_;
    self_.reset();
    active.leave();
  }

 private:
  template <class F>
  void post(F work) {
    asio::post(executor_, [self = shared_from_this(), work = std::move(work)]() mutable { work(); });
  }

  AttachClient& owner_;
  asio::any_io_executor executor_;
  grpc::ClientContext context_;
  wire::ServerFrame incoming_;
  std::mutex mutex_;
  bool released_ = false;
  std::shared_ptr<Stream> self_;
};

AttachClient::AttachClient(asio::any_io_executor executor, Options options)
    : executor_(executor),
      options_(std::move(options)),
      channel_(make_channel(options_.relay)),
      stub_(wire::SandboxWorker::NewStub(channel_)),
      egress_(std::numeric_limits<std::size_t>::max()),
      retry_timer_(executor),
      beat_timer_(executor),
      writable_timer_(executor),
      ended_timer_(executor),
      pause_(options_.retry_min) {}

AttachClient::~AttachClient() {
  if (stream_) stream_->release(true);
  active_.wait_empty();
}

void AttachClient::start(Handlers handlers) {
  handlers_ = std::move(handlers);
  connect();
}

void AttachClient::connect() {
  if (stopping_) return;
  stream_ = std::make_shared<Stream>(*this);
  stream_->open(options_.token);
  wire::WorkerFrame hello;
  *hello.mutable_hello() = options_.hello;
  egress_.force(std::move(hello));
  pump();
}

void AttachClient::accepted(const Stream* stream) {
  if (stream != stream_.get() || attached_) return;
  attached_ = true;
  attached_at_ = std::chrono::steady_clock::now();
  beat();
  if (handlers_.on_attached) handlers_.on_attached();
}

void AttachClient::received(const Stream* stream, wire::ServerFrame frame) {
  if (stream != stream_.get()) return;
  accepted(stream);  // A relay that sends no early metadata has let us in all the same.
  if (frame.has_exec()) handlers_.on_exec(std::move(*frame.mutable_exec()));
  if (frame.has_abort()) handlers_.on_abort(frame.abort().req_id());
}

void AttachClient::beat() {
  beat_timer_.expires_after(options_.heartbeat);
  beat_timer_.async_wait([this](boost::system::error_code error) {
    if (error || !attached_) return;
    wire::WorkerFrame frame;
    frame.mutable_heartbeat();
    send(std::move(frame));
    beat();
  });
}

void AttachClient::send(wire::WorkerFrame frame) {
  if (!attached_) return;
  egress_.force(std::move(frame));
  pump();
}

void AttachClient::pump() {
  if (!stream_ || stream_->released()) return;
  if (const wire::WorkerFrame* frame = egress_.next()) stream_->write(frame);
}

void AttachClient::written(const Stream* stream, bool ok) {
  if (stream != stream_.get()) return;
  egress_.written();
  if (!ok) return stream_->release(true);
  if (egress_.bytes() < kHighWater) writable_timer_.cancel();
  if (egress_.empty() && stopping_) ended_timer_.cancel();
  pump();
}

asio::awaitable<void> AttachClient::writable() {
  while (throttling_ && egress_.bytes() >= kHighWater) {
    boost::system::error_code ignored;
    writable_timer_.expires_at(asio::steady_timer::time_point::max());
    co_await writable_timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

void AttachClient::stop_throttling() {
  throttling_ = false;
  writable_timer_.cancel();
}

void AttachClient::lose_frames() {
  egress_ = Egress<wire::WorkerFrame>(std::numeric_limits<std::size_t>::max());
  writable_timer_.cancel();
}

void AttachClient::ended(const Stream* stream, const grpc::Status& status) {
  if (stream != stream_.get()) return;
  const bool was_attached = std::exchange(attached_, false);
  if (was_attached && std::chrono::steady_clock::now() - attached_at_ >= kGoodSession) pause_ = options_.retry_min;
  stream_.reset();
  beat_timer_.cancel();
  ended_timer_.cancel();
  lose_frames();
  if (was_attached && handlers_.on_detached) handlers_.on_detached();
  if (stopping_) return;

  thread_local std::minstd_rand random(std::random_device{}());
  const double jitter = std::uniform_real_distribution<double>(0.5, 1.0)(random);
  const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(pause_ * jitter);
  log::warn(was_attached ? "relay lost" : "cannot attach", {{"relay", options_.relay},
                                                            {"code", static_cast<int>(status.error_code())},
                                                            {"reason", status.error_message()},
                                                            {"retry_ms", wait.count()}});
  pause_ = std::min(pause_ * 2, options_.retry_max);
  retry_timer_.expires_after(wait);
  retry_timer_.async_wait([this](boost::system::error_code error) {
    if (!error) connect();
  });
}

asio::awaitable<void> AttachClient::stop(std::chrono::milliseconds grace) {
  stopping_ = true;
  retry_timer_.cancel();
  boost::system::error_code ignored;
  if (stream_ && attached_ && !egress_.empty()) {
    ended_timer_.expires_after(grace);
    co_await ended_timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  while (stream_) {
    stream_->release(true);
    ended_timer_.expires_at(asio::steady_timer::time_point::max());
    co_await ended_timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

}  // namespace roost::sandbox
