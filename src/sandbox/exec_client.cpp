#include "sandbox/exec_client.h"

#include <fmt/format.h>

#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "core/limits.h"
#include "sandbox/grpc_common.h"
#include "sandbox/v1/sandbox.grpc.pb.h"
#include "sandbox/wire.h"

namespace roost::sandbox {
namespace {

// The sandbox's own time-out comes first; this one is for a relay or a sandbox that no longer answers.
constexpr auto kDeadlineSlack = std::chrono::seconds(10);

// One call. gRPC calls the On… methods on its own threads; they post. What the coroutine reads is touched on the
// executor only. The call owns itself until OnDone; the hold is released once, by whoever stops reading first.
class Call final : public grpc::ClientReadReactor<wire::ExecEvent>, public std::enable_shared_from_this<Call> {
 public:
  Call(asio::any_io_executor executor, std::shared_ptr<ActiveCalls> active)
      : woken_(executor), executor_(executor), active_(std::move(active)) {}

  void open(wire::SandboxExec::Stub& stub, const std::string& token, wire::ExecRequest request,
            std::chrono::seconds timeout) {
    self_ = shared_from_this();
    active_->enter();
    request_ = std::move(request);
    context_.AddMetadata("authorization", "Bearer " + token);
    if (timeout.count() > 0) context_.set_deadline(std::chrono::system_clock::now() + timeout + kDeadlineSlack);
    stub.async()->Exec(&context_, &request_, this);
    AddHold();
    StartRead(&incoming_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return release(false);
    post([this] {
      event_ = std::move(incoming_);
      woken_.cancel();
    });
  }
  void OnDone(const grpc::Status& status) override {
    post([this, status] {
      status_ = status;
      woken_.cancel();
    });
    const auto active = active_;
    self_.reset();
    active->leave();
  }

  // From the executor: the next event, or nothing when the call is over (then status() tells how).
  asio::awaitable<std::optional<wire::ExecEvent>> next() {
    while (!event_ && !status_) {
      boost::system::error_code ignored;
      woken_.expires_at(asio::steady_timer::time_point::max());
      co_await woken_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    co_return std::exchange(event_, std::nullopt);
  }
  void read_next() {
    const std::lock_guard lock(mutex_);
    if (!released_) {
      incoming_.Clear();
      StartRead(&incoming_);
    }
  }
  const grpc::Status& status() const { return *status_; }

  // Any thread.
  void cancel() { context_.TryCancel(); }
  void release(bool cancel_call) {
    // The last hold lets OnDone run on another thread, which drops the call's hold on itself.
    const auto keep = shared_from_this();
    const std::lock_guard lock(mutex_);
    if (cancel_call) context_.TryCancel();
    if (!std::exchange(released_, true)) RemoveHold();
  }

 private:
  template <class F>
  void post(F work) {
    asio::post(executor_, [self = shared_from_this(), work = std::move(work)]() mutable { work(); });
  }

  std::optional<wire::ExecEvent> event_;
  std::optional<grpc::Status> status_;
  asio::steady_timer woken_;

  asio::any_io_executor executor_;
  std::shared_ptr<ActiveCalls> active_;
  grpc::ClientContext context_;
  wire::ExecRequest request_;
  wire::ExecEvent incoming_;
  std::mutex mutex_;
  bool released_ = false;
  std::shared_ptr<Call> self_;
};

// Leaves a call however the coroutine ends, also when its frame is destroyed half-way.
struct CallGuard {
  std::shared_ptr<Call> call;
  ~CallGuard() { call->release(true); }
};

Error error_of(const grpc::Status& status, const std::string& sandbox_id, bool aborted) {
  const std::string& text = status.error_message();
  if (aborted) return {ErrorKind::cancelled, "the command was cancelled", {}, {}};
  switch (status.error_code()) {
    case grpc::StatusCode::INTERNAL:
      if (text.starts_with("timeout:")) {
        return {ErrorKind::timeout,
                fmt::format("the command did not end within {} s and was killed", text.substr(8)),
                {},
                {}};
      }
      break;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return {ErrorKind::timeout, fmt::format("sandbox '{}' did not answer in time", sandbox_id), {}, {}};
    case grpc::StatusCode::UNAVAILABLE:
      if (text == "worker disconnected") break;
      return {ErrorKind::unavailable, fmt::format("the relay is not reachable: {}", text), {}, {}};
    default:
      break;
  }
  return {ErrorKind::sandbox_failed, fmt::format("sandbox '{}': {}", sandbox_id, text), {}, {}};
}

// Adds at most up to the cap; true when it is reached.
bool append_capped(std::string& to, const std::string& data) {
  to.append(data, 0, std::min(data.size(), limits::kExecStreamBytes - to.size()));
  return to.size() >= limits::kExecStreamBytes;
}

}  // namespace

struct ExecClient::Impl {
  Impl(asio::any_io_executor loop, const std::string& address, std::string bearer)
      : executor(loop),
        token(std::move(bearer)),
        channel(make_channel(address)),
        stub(wire::SandboxExec::NewStub(channel)) {}

  asio::any_io_executor executor;
  std::string token;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<wire::SandboxExec::Stub> stub;
  std::shared_ptr<ActiveCalls> active = std::make_shared<ActiveCalls>();
  std::atomic<std::uint64_t> next_req_id{1};
  std::mutex mutex;
  std::set<std::shared_ptr<Call>> calls;
};

ExecClient::ExecClient(asio::any_io_executor executor, const std::string& address, std::string token)
    : impl_(std::make_shared<Impl>(executor, address, std::move(token))) {}

ExecClient::~ExecClient() {
  {
    const std::lock_guard lock(impl_->mutex);
    for (const auto& call : impl_->calls) call->release(true);
  }
  // gRPC's callbacks post to the executor, which may die right after us.
  impl_->active->wait_empty();
}

asio::awaitable<Result<ExecOutcome>> ExecClient::exec(ExecSpec spec, AbortSource* abort,
                                                      std::function<void(ExecStream, std::string_view)> on_chunk) {
  const auto impl = impl_;
  if (abort != nullptr && abort->requested())
    co_return Error{ErrorKind::cancelled, "the command was cancelled", {}, {}};
  wire::ExecRequest request;
  request.set_sandbox_id(spec.sandbox_id);
  wire::Exec& exec = *request.mutable_exec();
  exec.set_req_id(impl->next_req_id++);
  exec.set_command(std::move(spec.command));
  exec.set_stdin(std::move(spec.stdin_bytes));
  exec.set_timeout_s(static_cast<std::uint32_t>(std::max<std::int64_t>(0, spec.timeout.count())));
  exec.set_streaming(true);
  exec.set_workspace_key(spec.workspace_key);
  if (request.ByteSizeLong() > limits::kGrpcMessageBytes) {
    co_return Error{ErrorKind::sandbox_failed,
                    fmt::format("command and stdin take more than {} bytes", limits::kGrpcMessageBytes),
                    {},
                    {}};
  }

  const auto call = std::make_shared<Call>(impl->executor, impl->active);
  call->open(*impl->stub, impl->token, std::move(request), spec.timeout);
  const CallGuard guard{call};
  AbortSource::Subscription subscription;
  if (abort != nullptr) subscription = abort->subscribe([call] { call->cancel(); });
  {
    const std::lock_guard lock(impl->mutex);
    impl->calls.insert(call);
  }
  ExecOutcome outcome;
  bool ended = false;
  while (true) {
    auto event = co_await call->next();
    if (!event) break;
    if (event->has_chunk()) {
      const bool is_err = event->chunk().stream() == wire::STREAM_STDERR;
      std::string& to = is_err ? outcome.err : outcome.out;
      const std::size_t before = to.size();
      const bool full = append_capped(to, event->chunk().data());
      if (on_chunk && to.size() > before) {
        on_chunk(is_err ? ExecStream::err : ExecStream::out, std::string_view(to).substr(before));
      }
      outcome.truncated = outcome.truncated || full;
    } else if (event->has_end()) {
      ended = true;
      outcome.exit_code = event->end().exit_code();
      outcome.truncated = outcome.truncated || event->end().truncated();
    }
    call->read_next();
  }
  {
    const std::lock_guard lock(impl->mutex);
    impl->calls.erase(call);
  }
  const bool aborted = abort != nullptr && abort->requested();
  if (call->status().ok() && ended) co_return outcome;
  if (call->status().ok())
    co_return Error{ErrorKind::sandbox_failed, "the sandbox ended the call without an end", {}, {}};
  co_return error_of(call->status(), spec.sandbox_id, aborted);
}

}  // namespace roost::sandbox
