#include "api/session_routes.h"

#include <utility>

#include "api/ask.h"
#include "api/generation_request.h"
#include "api/respond.h"
#include "core/ids.h"

namespace roost::api {
namespace {

Result<std::string> session_of_path(const net::Request& request) {
  std::string id(request.param("id"));
  if (is_plain_session_id(id)) return id;
  return {ErrorKind::invalid_request,
          "a session id in a path has 1 to 128 letters, digits and . _ ~ -; use POST /sessions/close for others"};
}

Result<std::string> session_of_body(const net::Request& request) {
  ROOST_TRY(body, parse_json_object(request.body));
  ROOST_TRY(id, parse_session_id(body, "session_id"));
  if (id.empty()) return {ErrorKind::invalid_request, "'session_id' is required"};
  return id;
}

net::awaitable<void> close(ApiContext& context, net::Exchange& exchange, Result<std::string> session) {
  Result<engine::SessionClosed> closed(engine::SessionClosed{});
  if (!session) {
    closed = session.error();
  } else {
    auto reply = std::make_shared<Reply<engine::SessionClosed>>(exchange.executor());
    engine::CloseSession command{*session, Reply<engine::SessionClosed>::completion(reply)};
    if (context.engine.post(std::move(command))) {
      std::function<void()> on_abort;  // it takes effect all the same
      closed = co_await Reply<engine::SessionClosed>::wait(reply, exchange.aborted(), std::move(on_abort));
    } else {
      closed = not_taken(context.engine);
    }
  }
  if (!closed) {
    Error error = std::move(closed).error();
    co_await respond_error(context, exchange, std::move(error));
    co_return;
  }
  json::value body = json::object{{"session_id", *session},
                                  {"found", closed->found},
                                  {"released", closed->pools_released},
                                  {"kv_dropped", closed->cells_freed}};
  co_await respond_json(context, exchange, 200, std::move(body));
}

net::awaitable<void> integrity(ApiContext& context, net::Exchange& exchange) {
  auto reply = std::make_shared<Reply<std::string>>(exchange.executor());
  Result<std::string> checked(std::string{});
  engine::CheckIntegrity command{Reply<std::string>::completion(reply)};
  if (context.engine.post(std::move(command))) {
    std::function<void()> on_abort;
    checked = co_await Reply<std::string>::wait(reply, exchange.aborted(), std::move(on_abort));
  } else {
    checked = not_taken(context.engine);
  }
  if (!checked) {
    Error error = std::move(checked).error();
    co_await respond_error(context, exchange, std::move(error));
    co_return;
  }
  json::value body = json::object{{"ok", true}, {"result", *checked}};
  co_await respond_json(context, exchange, 200, std::move(body));
}

bool is_loopback(const std::string& host) { return host.starts_with("127.") || host == "::1" || host == "localhost"; }

net::awaitable<void> shutdown(ApiContext& context, net::Exchange& exchange) {
  if (!is_loopback(context.config.text("engine.host"))) {
    Error error{ErrorKind::not_supported,
                "POST /shutdown works only while the engine listens on a loopback address; send SIGTERM",
                {},
                {}};
    co_await respond_error(context, exchange, std::move(error));
    co_return;
  }
  json::value body = json::object{{"shutting_down", true}};
  co_await respond_json(context, exchange, 200, std::move(body));
  context.request_shutdown();
}

}  // namespace

void add_session_routes(net::Router& router, ApiContext& context) {
  const auto by_path = [&context](net::Exchange& x) { return close(context, x, session_of_path(x.request())); };
  router.add("POST", "/sessions/{id}/close", by_path);
  router.add("DELETE", "/sessions/{id}", by_path);
  router.add("POST", "/sessions/close",
             [&context](net::Exchange& x) { return close(context, x, session_of_body(x.request())); });
  router.add("GET", "/debug/integrity", [&context](net::Exchange& x) { return integrity(context, x); });
  router.add("POST", "/shutdown", [&context](net::Exchange& x) { return shutdown(context, x); });
}

}  // namespace roost::api
