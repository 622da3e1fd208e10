#include "agent/sse_sink.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "core/utf8.h"
#include "net/sse.h"

namespace roost::agent {
namespace {

using SteadyClock = std::chrono::steady_clock;

std::string frame(std::string_view name, const json::object& data) {
  return net::format_sse(json::serialize(data), name);
}

}  // namespace

struct SseSink::State {
  State(net::Exchange& e, std::chrono::milliseconds interval)
      : exchange(e),
        keepalive(interval),
        silence(e.executor()),
        free(e.executor(), SteadyClock::time_point::max()),
        last_write(SteadyClock::now()) {}

  // Waits for its turn, opens the stream when it is the first, writes what was held back and `bytes`. A write that
  // fails is dropped: the Exchange's abort says the same.
  static asio::awaitable<void> write(std::shared_ptr<State> self, std::string bytes) {
    while (self->busy) {
      co_await self->free.async_wait(asio::as_tuple(asio::use_awaitable));
    }
    self->busy = true;
    bool alive = true;
    if (!std::exchange(self->opened, true)) {
      net::Headers headers{{"Content-Type", "text/event-stream"}, {"Cache-Control", "no-store"}};
      auto started = co_await self->exchange.start(200, std::move(headers));
      alive = started.ok();
    }
    const std::string whole = std::exchange(self->held, {}) + bytes;
    if (alive) (void)co_await self->exchange.write(whole);
    self->last_write = SteadyClock::now();
    self->busy = false;
    self->free.cancel();
  }

  static asio::awaitable<void> keep_alive(std::shared_ptr<State> self) {
    while (!self->closed) {
      self->silence.expires_at(self->last_write + self->keepalive);
      co_await self->silence.async_wait(asio::as_tuple(asio::use_awaitable));
      if (self->closed) break;
      const bool silent = !self->busy && SteadyClock::now() - self->last_write >= self->keepalive;
      if (silent) co_await write(self, net::format_sse_comment("keepalive"));
    }
    self->keeper_gone = true;
    self->free.cancel();
  }

  net::Exchange& exchange;
  std::chrono::milliseconds keepalive;
  asio::steady_timer silence;
  asio::steady_timer free;  // cancelled when `busy` ends or the keep-alive has gone
  SteadyClock::time_point last_write;
  std::string held;  // the `turn` event, until something follows
  bool opened = false;
  bool busy = false;
  bool closed = false;
  bool keeper_gone = false;
};

SseSink::SseSink(net::Exchange& exchange, std::chrono::milliseconds keepalive)
    : state_(std::make_shared<State>(exchange, keepalive)) {
  asio::co_spawn(exchange.executor(), State::keep_alive(state_), asio::detached);
}

SseSink::~SseSink() {
  state_->closed = true;
  state_->silence.cancel();
}

bool SseSink::opened() const { return state_->opened; }

asio::awaitable<void> SseSink::on_turn(std::string turn_id, std::string session_id) {
  state_->held = frame("turn", {{"turnId", turn_id}, {"sessionId", session_id}});
  co_return;
}

asio::awaitable<void> SseSink::on_text(std::string delta) {
  return State::write(state_, frame("text", {{"delta", delta}}));
}

asio::awaitable<void> SseSink::on_model(ModelProgress progress) {
  json::object data{{"phase", progress.phase == ModelProgress::Phase::prefill ? "prefill" : "decode"}};
  if (progress.engine) {
    for (auto& member : progress.engine->to_json()) data.insert(member);
  }
  return State::write(state_, frame("model", data));
}

asio::awaitable<void> SseSink::on_tool_use(const ToolCall& call) {
  // Arguments that are JSON go out as JSON; malformed ones as the text that the model wrote.
  auto parsed = parse_json(call.arguments);
  json::value arguments = parsed.ok() ? *std::move(parsed) : json::value(call.arguments);
  return State::write(state_,
                      frame("tool_use", {{"id", call.id}, {"name", call.name}, {"args", std::move(arguments)}}));
}

asio::awaitable<void> SseSink::on_tool_result(std::string id, const ToolOutcome& outcome) {
  const json::object data{
      {"id", id}, {"isError", outcome.is_error}, {"preview", utf8_prefix(outcome.text, kPreviewBytes)}};
  return State::write(state_, frame("tool_result", data));
}

asio::awaitable<void> SseSink::done(const TurnOutcome& outcome) {
  json::object data{{"stopReason", outcome.stop_reason}, {"usage", outcome.usage.to_json()}};
  for (auto& member : outcome.to_json()) {
    if (member.key() != "response") data.insert(member);  // the text events were that
  }
  co_await State::write(state_, frame("done", data));
  co_await close();
  (void)co_await state_->exchange.finish();
}

asio::awaitable<void> SseSink::failed(const Error& error) {
  const bool aborted = error.kind == ErrorKind::cancelled;
  json::object data{
      {"stopReason", aborted ? "aborted" : "error"}, {"errorMessage", error.message}, {"error", error.name()}};
  for (auto& member : to_json(error.details)) data.insert(member);
  co_await State::write(state_, frame("error", data));
  co_await close();
  (void)co_await state_->exchange.finish();
}

asio::awaitable<void> SseSink::close() {
  const auto state = state_;
  state->closed = true;
  state->silence.cancel();
  while (state->busy || !state->keeper_gone) {
    co_await state->free.async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

}  // namespace roost::agent
