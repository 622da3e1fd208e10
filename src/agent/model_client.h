// ModelClient: one model call of a turn, whatever protocol the model tier speaks. The turn loop knows only this.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/message.h"
#include "core/abort.h"
#include "core/json.h"
#include "core/result.h"

namespace roost::agent {

namespace asio = boost::asio;

// Tokens. `input` is what had to be computed: it does not include what came from a cache.
struct Usage {
  std::int64_t input = 0;
  std::int64_t output = 0;
  std::int64_t cache_read = 0;
  std::int64_t cache_write = 0;

  std::int64_t total() const { return input + output + cache_read + cache_write; }
  Usage& operator+=(const Usage& more);
  json::object to_json() const;  // {input, output, cacheRead, cacheWrite, total}
  friend bool operator==(const Usage&, const Usage&) = default;
};

// What a Roost engine (or llama-server) tells about a call, summed over the calls of a turn.
struct EngineReport {
  std::int64_t calls = 0;               // model calls that were reported
  std::optional<std::int64_t> pool_id;  // of the last call
  std::int64_t n_pool_shared = 0;       // prompt tokens that came from the pool: of the call that shared most
  std::int64_t prompt_n = 0;            // prompt tokens that were prefilled
  std::int64_t cache_n = 0;             // prompt tokens that were not
  std::int64_t predicted_n = 0;         // tokens decoded
  double predicted_ms = 0;

  // Decoded tokens per second; empty when none was timed.
  std::optional<double> tps() const;
  void add(const EngineReport& call);
  json::object to_json() const;  // {pool_id, n_pool_shared, prompt_n, cache_n, tps, calls}
};

struct ToolSchema {
  std::string name;
  std::string description;
  json::object parameters;  // JSON Schema
};

// As the API takes them: [{"type": "function", "function": {name, description, parameters}}].
json::array to_openai(const std::vector<ToolSchema>& tools);

struct ToolChoice {
  enum class Mode { automatic, none, required, named } mode = Mode::automatic;
  std::string name;  // of named
};

struct ModelRequest {
  std::string model;
  std::vector<Message> messages;
  std::vector<ToolSchema> tools;
  std::optional<ToolChoice> tool_choice;
  std::int64_t max_tokens = 1024;
  std::optional<double> temperature;
  std::optional<std::int64_t> seed;
  std::string session_id;               // sent only to a server that knows sessions
  std::optional<std::int64_t> pool_id;  // sent as it is
};

struct ModelReply {
  std::string text;
  std::vector<ToolCall> tool_calls;
  std::string finish_reason;  // "stop", "length", "tool_calls", ...
  Usage usage;
  std::optional<EngineReport> engine;
};

// What happens while a call runs. The coroutines are awaited, so that a slow reader slows the stream down.
class ModelListener {
 public:
  virtual ~ModelListener() = default;
  // The server took the request; prefill begins or goes on.
  virtual asio::awaitable<void> on_accepted() = 0;
  // A piece of the reply's text, valid UTF-8.
  virtual asio::awaitable<void> on_text(std::string delta) = 0;
};

class ModelClient {
 public:
  virtual ~ModelClient() = default;
  // Errors: model_unavailable (not reachable, overloaded, lost), model_error (an answer that makes no sense, or a
  // refusal that is not the requester's fault), timeout, cancelled, or the kind a Roost engine named (unknown_pool,
  // exceed_context_size, tps_floor, ...). A failed call may be tried again only while nothing was given to the
  // listener.
  virtual asio::awaitable<Result<ModelReply>> complete(ModelRequest request, ModelListener& listener,
                                                       AbortSource& abort) = 0;
};

}  // namespace roost::agent
