// One streamed answer: opened late (so that an error before the first byte is a plain HTTP error), then events and
// comments.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "api/context.h"
#include "core/error.h"
#include "core/json.h"
#include "net/http_server.h"

namespace roost::api {

class SseAnswer {
 public:
  SseAnswer(const ApiContext& context, net::Exchange& exchange) : context_(context), exchange_(exchange) {}

  bool opened() const { return opened_; }
  // False once a write failed: the client is gone, later calls do nothing.
  bool alive() const { return alive_; }
  std::chrono::steady_clock::time_point last_write() const { return last_write_; }

  // Each opens the stream if it is not open; `headers` are added to the head then.
  net::awaitable<void> open(net::Headers headers);
  net::awaitable<void> event(json::object data);
  net::awaitable<void> comment(std::string text);
  // Already formatted events.
  net::awaitable<void> raw(std::string text);
  // A data frame with an `error` object, then the end.
  net::awaitable<void> fail(Error error);
  // "data: [DONE]" when asked for, then the end.
  net::awaitable<void> finish(bool done_marker);

 private:
  const ApiContext& context_;
  net::Exchange& exchange_;
  bool opened_ = false;
  bool alive_ = true;
  std::chrono::steady_clock::time_point last_write_ = std::chrono::steady_clock::now();
};

}  // namespace roost::api
