#include "api/sse_answer.h"

#include "api/error_body.h"
#include "api/respond.h"
#include "net/sse.h"

namespace roost::api {

net::awaitable<void> SseAnswer::open(net::Headers headers) {
  if (opened_ || !alive_) co_return;
  opened_ = true;
  headers.set("Content-Type", "text/event-stream; charset=utf-8");
  headers.set("Cache-Control", "no-cache");
  headers.set("X-Accel-Buffering", "no");
  headers.set(kBootIdHeader, context_.boot_id);
  const auto started = co_await exchange_.start(200, std::move(headers));
  alive_ = started.ok();
}

net::awaitable<void> SseAnswer::event(json::object data) {
  std::string text = net::format_sse(json::serialize(data));
  co_await raw(std::move(text));
}

net::awaitable<void> SseAnswer::comment(std::string text) {
  std::string line = net::format_sse_comment(text);
  co_await raw(std::move(line));
}

net::awaitable<void> SseAnswer::raw(std::string text) {
  co_await open({});
  if (!alive_) co_return;
  const auto written = co_await exchange_.write(text);
  alive_ = written.ok();
  last_write_ = std::chrono::steady_clock::now();
}

net::awaitable<void> SseAnswer::fail(Error error) {
  json::object body = error_body(error);
  co_await event(std::move(body));
  co_await finish(false);
}

net::awaitable<void> SseAnswer::finish(bool done_marker) {
  if (done_marker) {
    std::string done = net::format_sse("[DONE]");
    co_await raw(std::move(done));
  }
  if (!alive_) co_return;
  const auto finished = co_await exchange_.finish();
  alive_ = finished.ok();
}

}  // namespace roost::api
