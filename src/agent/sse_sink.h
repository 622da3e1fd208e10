// SseSink: a turn's events as server-sent events on an Exchange.
//
// The `turn` event is held back until something follows it, so that what fails before (the model tier is away) can
// still be an ordinary JSON error; after 20 s of silence it leaves anyway, followed by `: keepalive`. Writes are one at
// a time. After close() nothing of the sink touches the Exchange any more.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "agent/turn.h"
#include "agent/turn_events.h"
#include "core/error.h"
#include "net/http_server.h"

namespace roost::agent {

inline constexpr std::size_t kPreviewBytes = 2'048;  // of a tool result in an event
inline constexpr std::chrono::milliseconds kKeepaliveInterval{20'000};

class SseSink final : public TurnEvents {
 public:
  SseSink(net::Exchange& exchange, std::chrono::milliseconds keepalive);
  ~SseSink() override;

  asio::awaitable<void> on_turn(std::string turn_id, std::string session_id) override;
  asio::awaitable<void> on_text(std::string delta) override;
  asio::awaitable<void> on_model(ModelProgress progress) override;
  asio::awaitable<void> on_tool_use(const ToolCall& call) override;
  asio::awaitable<void> on_tool_result(std::string id, const ToolOutcome& outcome) override;

  // Has anything left? If not, an error can still be a JSON answer.
  bool opened() const;
  // The terminal event, then the end of the stream.
  asio::awaitable<void> done(const TurnOutcome& outcome);
  asio::awaitable<void> failed(const Error& error);
  // Stops the keep-alive and waits for a write that is under way. done() and failed() do it too.
  asio::awaitable<void> close();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace roost::agent
