#include "agent/turn.h"

#include <fmt/format.h>

#include <algorithm>

#include "agent/tool_batch.h"

namespace roost::agent {
namespace {

// A turn that meets Redis between two connections (a worker's first moment, a restart) waits this long before it is
// refused.
constexpr std::chrono::milliseconds kRedisGrace{250};

}  // namespace

// The model's side of the events.
class Turn::Listener final : public ModelListener {
 public:
  explicit Listener(TurnEvents& events) : events_(events) {}
  asio::awaitable<void> on_accepted() override {
    const ModelProgress prefill{ModelProgress::Phase::prefill, std::nullopt};
    co_await events_.on_model(prefill);
  }
  asio::awaitable<void> on_text(std::string delta) override {
    if (!std::exchange(decoding_, true)) {
      const ModelProgress decode{ModelProgress::Phase::decode, std::nullopt};
      co_await events_.on_model(decode);
    }
    co_await events_.on_text(std::move(delta));
  }

 private:
  TurnEvents& events_;
  bool decoding_ = false;
};

json::object TurnOutcome::to_json() const {
  json::object out{
      {"sessionId", session_id}, {"response", response}, {"stopReason", stop_reason}, {"usage", usage.to_json()}};
  json::value id;  // null: the turn had no sandbox
  if (!sandbox_id.empty()) id = sandbox_id;
  out["sandbox"] = json::object{{"id", std::move(id)}};
  if (!error_message.empty()) out["errorMessage"] = error_message;
  if (engine) out["engine"] = engine->to_json();
  return out;
}

Error abort_error(const std::string& reason) {
  Error error{ErrorKind::cancelled, "the turn was cancelled", {}, {}};
  if (reason == "client_gone") error.message = "the client left before the turn ended";
  if (reason == "lease_lost") {
    error.kind = ErrorKind::turn_in_progress;
    error.message = "the turn lost its lease on the session; what it did after that is not kept";
  }
  if (reason == "shutting_down" || reason == "draining") {
    error.kind = ErrorKind::shutting_down;
    error.message = "the worker is shutting down";
  }
  error.details.emplace_back("abortReason", reason);
  return error;
}

Turn::Turn(const TurnServices& services, TurnRequest request, std::string turn_id, AbortSource& abort,
           TurnEvents& events)
    : services_(services), request_(std::move(request)), turn_id_(std::move(turn_id)), abort_(abort), events_(events) {
  outcome_.session_id = request_.session_id;
}

Turn::~Turn() = default;

Error Turn::aborted() const { return abort_error(abort_.reason()); }

asio::awaitable<Result<TurnOutcome>> Turn::run() {
  auto connected = co_await services_.redis->wait_connected(kRedisGrace);
  if (!connected.ok()) co_return std::move(connected).error();
  if (abort_.requested()) co_return aborted();
  auto lease = co_await store::SessionLease::acquire(services_.executor, services_.redis, request_.session_id, turn_id_,
                                                     services_.options.lease_life);
  if (!lease.ok()) co_return std::move(lease).error();
  lease_ = *std::move(lease);
  auto lost = lease_->lost().subscribe([this] { abort_.request("lease_lost"); });
  auto result = co_await run_leased();
  lost.reset();
  if (seat_) co_await seat_->release();
  co_await lease_->release();
  co_return result;
}

asio::awaitable<Result<TurnOutcome>> Turn::run_leased() {
  if (auto loaded = co_await load_session(); !loaded.ok()) co_return std::move(loaded).error();
  if (!request_.tools.empty()) {
    std::string holder = fmt::format("{}:{}", request_.session_id, turn_id_);
    auto seat = co_await services_.sandboxes->take(std::move(holder), preferred_sandbox_);
    if (!seat.ok()) co_return std::move(seat).error();
    seat_ = *std::move(seat);
    outcome_.sandbox_id = seat_->sandbox_id();
  }
  // The log is written only from here on: a turn that was refused leaves no trace in it.
  if (new_system_) writer_->append("system", to_log(Message{Role::system, *request_.system, {}, {}, false}));
  append(Message{Role::user, request_.prompt, {}, {}, false});
  co_await events_.on_turn(turn_id_, request_.session_id);

  auto talked = co_await converse();
  const bool finished = talked.ok();
  std::string reason = outcome_.stop_reason;
  if (!finished) reason = abort_.requested() ? "aborted" : "error";
  auto kept = co_await finish(std::move(reason), finished);
  if (!talked.ok()) co_return std::move(talked).error();
  if (!kept.ok()) co_return std::move(kept).error();
  co_return outcome_;
}

asio::awaitable<Result<void>> Turn::load_session() {
  store::SessionLog log(services_.redis);
  auto entries = co_await log.load(request_.session_id);
  if (!entries.ok()) co_return std::move(entries).error();
  auto history = read_history(*entries);
  if (!history.ok()) {
    co_return Error{ErrorKind::internal,
                    fmt::format("session '{}' cannot be read: {}", request_.session_id, history.error().message),
                    {},
                    {}};
  }
  writer_ = std::make_unique<store::SessionWriter>(services_.executor, log, request_.session_id, lease_->value(),
                                                   history->last_position, *services_.clock);
  preferred_sandbox_ = history->sandbox_id;
  new_system_ = request_.system && request_.system != history->system;
  if (new_system_) history->system = request_.system;
  if (history->system && !history->system->empty()) {
    messages_.push_back(Message{Role::system, *history->system, {}, {}, false});
  }
  messages_.insert(messages_.end(), std::make_move_iterator(history->messages.begin()),
                   std::make_move_iterator(history->messages.end()));
  co_return Result<void>{};
}

void Turn::append(Message message) {
  writer_->append(std::string(to_string(message.role)), to_log(message));
  messages_.push_back(std::move(message));
}

asio::awaitable<Result<void>> Turn::converse() {
  const std::int64_t bound =
      std::min(request_.max_turns.value_or(services_.options.max_turns), services_.options.max_turns);
  for (std::int64_t call = 0; call < bound; ++call) {
    auto reply = co_await call_model(call == 0);
    if (abort_.requested()) co_return aborted();
    if (!reply.ok()) co_return std::move(reply).error();
    append(Message{Role::assistant, reply->text, reply->tool_calls, {}, false});
    outcome_.response = std::move(reply->text);
    if (reply->tool_calls.empty()) {
      outcome_.stop_reason = reply->finish_reason == "length" ? "length" : "stop";
      co_return Result<void>{};
    }
    co_await run_tools(reply->tool_calls);
    if (abort_.requested()) co_return aborted();
  }
  outcome_.stop_reason = "max_turns";
  outcome_.error_message = fmt::format("the turn ended after {} model calls without a final text", bound);
  co_return Result<void>{};
}

asio::awaitable<Result<ModelReply>> Turn::call_model(bool first) {
  ModelRequest request;
  request.model = request_.model.empty() ? services_.options.model : request_.model;
  request.messages = messages_;
  request.tools = request_.tools;
  if (first) request.tool_choice = request_.tool_choice;
  request.max_tokens = request_.max_tokens.value_or(services_.options.max_tokens);
  request.temperature = request_.temperature;
  request.seed = request_.seed;
  request.session_id = request_.session_id;
  request.pool_id = request_.pool_id;

  Listener listener(events_);
  auto reply = co_await services_.model->complete(std::move(request), listener, abort_);
  if (!reply.ok()) co_return reply;
  outcome_.usage += reply->usage;
  if (reply->engine) {
    if (!outcome_.engine) outcome_.engine.emplace();
    outcome_.engine->add(*reply->engine);
    const ModelProgress reported{ModelProgress::Phase::decode, reply->engine};
    co_await events_.on_model(reported);
  }
  co_return reply;
}

asio::awaitable<void> Turn::run_tools(const std::vector<ToolCall>& calls) {
  for (const ToolCall& call : calls) co_await events_.on_tool_use(call);
  const ToolContext context{seat_.get(), request_.session_id, services_.options.exec_timeout};
  OnToolFinished told = [this, &calls](std::size_t index, const ToolOutcome& outcome) {
    return events_.on_tool_result(calls[index].id, outcome);
  };
  auto outcomes = co_await run_tool_batch(services_.executor, calls, request_.tools, context, abort_, std::move(told));
  for (std::size_t i = 0; i < calls.size(); ++i) {
    append(Message{Role::tool, std::move(outcomes[i].text), {}, calls[i].id, outcomes[i].is_error});
  }
}

asio::awaitable<Result<void>> Turn::finish(std::string stop_reason, bool finished) {
  json::object end{{"turnId", turn_id_}, {"stopReason", stop_reason}, {"usage", outcome_.usage.to_json()}};
  if (!outcome_.sandbox_id.empty()) end["sandboxId"] = outcome_.sandbox_id;
  writer_->append("turn", json::serialize(end));
  store::TurnTotals totals;
  totals.turns = finished ? 1 : 0;
  totals.input_tokens = outcome_.usage.input + outcome_.usage.cache_read + outcome_.usage.cache_write;
  totals.output_tokens = outcome_.usage.output;
  totals.sandbox_id = outcome_.sandbox_id;
  auto flushed = co_await writer_->flush(std::move(totals));
  co_return flushed;
}

}  // namespace roost::agent
