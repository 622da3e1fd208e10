// GET /polykv/tps: one snapshot, or a stream of them.
#include <charconv>
#include <chrono>
#include <utility>

#include "api/pool_status.h"
#include "api/respond.h"
#include "api/sse_answer.h"
#include "api/status_routes.h"
#include "api/wakeup.h"

namespace roost::api {
namespace {

constexpr std::chrono::milliseconds kDefaultInterval{500};
constexpr std::int64_t kMinInterval = 50, kMaxInterval = 60'000;  // milliseconds

bool is_set(const net::Request& request, std::string_view name) {
  const std::string* value = request.query_value(name);
  return value != nullptr && (*value == "1" || *value == "true");
}

bool wants_stream(const net::Request& request) {
  if (is_set(request, "once")) return false;
  return is_set(request, "stream") || request.headers.get("Accept").find("text/event-stream") != std::string_view::npos;
}

Result<std::chrono::milliseconds> interval_of(const net::Request& request) {
  const std::string* text = request.query_value("interval_ms");
  if (text == nullptr) return kDefaultInterval;
  std::int64_t ms = 0;
  const auto [end, ec] = std::from_chars(text->data(), text->data() + text->size(), ms);
  if (ec != std::errc{} || end != text->data() + text->size() || ms < kMinInterval || ms > kMaxInterval) {
    return {ErrorKind::invalid_request, "'interval_ms' must be a whole number from 50 to 60000"};
  }
  return std::chrono::milliseconds(ms);
}

net::awaitable<void> stream(ApiContext& context, net::Exchange& exchange, std::chrono::milliseconds interval) {
  SseAnswer sse(context, exchange);
  const auto wakeup = std::make_shared<Wakeup>(exchange.executor());
  const auto subscription = exchange.aborted().subscribe([wakeup] { wakeup->signal(); });
  auto next = std::chrono::steady_clock::now();
  while (sse.alive() && !exchange.aborted().requested() && !context.engine.stopped()) {
    json::object snapshot = tps_json(*context.engine.view());
    co_await sse.event(std::move(snapshot));
    next += interval;
    co_await wakeup->wait(next);
  }
  if (!exchange.aborted().requested()) co_await sse.finish(false);
}

net::awaitable<void> tps(ApiContext& context, net::Exchange& exchange) {
  const auto interval = interval_of(exchange.request());
  if (!interval) {
    Error error = interval.error();
    co_await respond_error(context, exchange, std::move(error));
    co_return;
  }
  if (wants_stream(exchange.request())) {
    co_await stream(context, exchange, *interval);
    co_return;
  }
  json::value body = tps_json(*context.engine.view());
  co_await respond_json(context, exchange, 200, std::move(body));
}

}  // namespace

void add_tps_route(net::Router& router, ApiContext& context) {
  router.add("GET", "/polykv/tps", [&context](net::Exchange& x) { return tps(context, x); });
}

}  // namespace roost::api
