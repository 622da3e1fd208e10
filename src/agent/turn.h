// One turn: take the session, load it, take a place in a sandbox, then model call → tool calls → append, until a final
// text, the bound on model calls, or an abort. One coroutine; everything it needs comes in, nothing of it is global.
//
// However a turn ends, in this order: no command of it runs any more, its log is flushed, its sandbox and its session
// are given back. Only then run() returns, so the session's next turn may begin at once.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "agent/model_client.h"
#include "agent/sandbox_port.h"
#include "agent/session_history.h"
#include "agent/turn_events.h"
#include "agent/turn_request.h"
#include "core/clock.h"
#include "store/redis.h"
#include "store/session_lease.h"
#include "store/session_writer.h"

namespace roost::agent {

struct TurnOptions {
  std::string model = "default";
  std::int64_t max_tokens = 1024;
  std::int64_t max_turns = 50;
  std::chrono::milliseconds lease_life{30'000};
  std::chrono::seconds exec_timeout{1800};
};

// What all turns of a worker share. Outlives them.
struct TurnServices {
  asio::any_io_executor executor;
  std::shared_ptr<store::Redis> redis;
  SandboxPort* sandboxes = nullptr;
  ModelClient* model = nullptr;
  const Clock* clock = nullptr;
  TurnOptions options;
};

struct TurnOutcome {
  std::string session_id;
  std::string response;     // the last reply's text
  std::string stop_reason;  // "stop", "length", "max_turns"
  Usage usage;
  std::string sandbox_id;  // empty when no tools were offered
  std::optional<EngineReport> engine;
  std::string error_message;  // why there is no final text (max_turns)

  json::object to_json() const;
};

class Turn {
 public:
  // `abort` ends the turn: the model request is cancelled, commands are killed. request.session_id is set.
  Turn(const TurnServices& services, TurnRequest request, std::string turn_id, AbortSource& abort, TurnEvents& events);
  ~Turn();
  Turn(const Turn&) = delete;

  // Once. An aborted turn is Error cancelled (or shutting_down, turn_in_progress) with the detail abortReason.
  asio::awaitable<Result<TurnOutcome>> run();

 private:
  class Listener;

  asio::awaitable<Result<TurnOutcome>> run_leased();
  asio::awaitable<Result<void>> load_session();
  asio::awaitable<Result<void>> converse();
  asio::awaitable<Result<ModelReply>> call_model(bool first);
  asio::awaitable<void> run_tools(const std::vector<ToolCall>& calls);
  asio::awaitable<Result<void>> finish(std::string stop_reason, bool finished);

  void append(Message message);
  Error aborted() const;

  const TurnServices& services_;
  TurnRequest request_;
  std::string turn_id_;
  AbortSource& abort_;
  TurnEvents& events_;

  std::unique_ptr<store::SessionLease> lease_;
  std::unique_ptr<store::SessionWriter> writer_;
  std::unique_ptr<SandboxSeat> seat_;
  std::string preferred_sandbox_;
  bool new_system_ = false;        // this turn's system text differs from the session's
  std::vector<Message> messages_;  // as the next model call sees them
  TurnOutcome outcome_;
};

// What an abort with this reason means to the client.
Error abort_error(const std::string& reason);

}  // namespace roost::agent
