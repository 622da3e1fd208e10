// What a turn tells while it runs. The coroutines are awaited, so that a slow reader slows the turn down; an event that
// cannot be delivered is dropped (the client's leaving reaches the turn through its AbortSource).
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "agent/message.h"
#include "agent/model_client.h"
#include "agent/tools.h"

namespace roost::agent {

// Where a model call is.
struct ModelProgress {
  enum class Phase { prefill, decode } phase = Phase::prefill;
  std::optional<EngineReport> engine;  // at the call's end, when the server reports
};

class TurnEvents {
 public:
  virtual ~TurnEvents() = default;
  // The session, its lease and the sandbox are there; the first model call comes next.
  virtual asio::awaitable<void> on_turn(std::string turn_id, std::string session_id) = 0;
  virtual asio::awaitable<void> on_text(std::string delta) = 0;
  virtual asio::awaitable<void> on_model(ModelProgress progress) = 0;
  virtual asio::awaitable<void> on_tool_use(const ToolCall& call) = 0;
  virtual asio::awaitable<void> on_tool_result(std::string id, const ToolOutcome& outcome) = 0;
};

// For clients that want only the answer.
class SilentEvents final : public TurnEvents {
 public:
  asio::awaitable<void> on_turn(std::string, std::string) override { co_return; }
  asio::awaitable<void> on_text(std::string) override { co_return; }
  asio::awaitable<void> on_model(ModelProgress) override { co_return; }
  asio::awaitable<void> on_tool_use(const ToolCall&) override { co_return; }
  asio::awaitable<void> on_tool_result(std::string, const ToolOutcome&) override { co_return; }
};

}  // namespace roost::agent
