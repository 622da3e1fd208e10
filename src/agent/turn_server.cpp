#include "agent/turn_server.h"

#include <fmt/format.h>

#include "agent/turn_error.h"
#include "core/ids.h"
#include "store/session_log.h"

namespace roost::agent {
namespace {

constexpr std::size_t kIdBytes = 16;

asio::awaitable<void> answer(net::Exchange& exchange, net::Response response) {
  (void)co_await exchange.send(std::move(response));
}

bool wants_events(const net::Request& request) {
  return request.headers.get("Accept").find("text/event-stream") != std::string_view::npos;
}

// A handler for a target that must match exactly: the router compares decoded paths without their query.
net::Handler exactly(std::string target, net::Handler handler) {
  return [target = std::move(target), handler = std::move(handler)](net::Exchange& exchange) -> asio::awaitable<void> {
    if (exchange.request().target == target) return handler(exchange);
    const Error error{ErrorKind::not_found, fmt::format("there is no {}", exchange.request().target), {}, {}};
    return answer(exchange, render_turn_error(error));
  };
}

net::Handler not_there(std::string what) {
  return [what = std::move(what)](net::Exchange& exchange) {
    const Error error{ErrorKind::not_supported, what + " is not there yet", {}, {}};
    return answer(exchange, render_turn_error(error));
  };
}

struct CancelRequest {
  std::string session_id;
  std::string turn_id;
};

Result<CancelRequest> parse_cancel(std::string_view body) {
  ROOST_TRY(object, parse_json_object(body));
  const ObjectReader reader(object);
  ROOST_TRY(session_id, reader.string("sessionId"));
  if (!session_id) return {ErrorKind::invalid_request, "'sessionId' is required"};
  ROOST_TRY_VOID(check_session_id(*session_id));
  ROOST_TRY(turn_id, reader.string("turnId"));
  return CancelRequest{*std::move(session_id), std::move(turn_id).value_or("")};
}

json::object session_json(const store::SessionInfo& info) {
  json::value sandbox;
  if (!info.totals.sandbox_id.empty()) sandbox = info.totals.sandbox_id;
  json::object out{{"sessionId", info.session_id},
                   {"turns", info.totals.turns},
                   {"tokens", json::object{{"input", info.totals.input_tokens},
                                           {"output", info.totals.output_tokens},
                                           {"total", info.totals.input_tokens + info.totals.output_tokens}}},
                   {"state", info.running_turn.empty() ? "idle" : "running"},
                   {"entries", info.entries},
                   {"sandbox", json::object{{"id", std::move(sandbox)}}},
                   {"createdMs", info.created_ms},
                   {"updatedMs", info.updated_ms}};
  if (!info.running_turn.empty()) out["turnId"] = info.running_turn;
  return out;
}

}  // namespace

TurnServer::TurnServer(TurnServices services, Options options)
    : services_(std::move(services)), options_(options), registry_(services_.executor, services_.redis) {}

void TurnServer::add_routes(net::Router& router) {
  const net::Handler health = [](net::Exchange& exchange) { return answer(exchange, net::Response::text(200, "ok")); };
  const net::Handler turn_handler = [this](net::Exchange& exchange) { return turn(exchange); };
  const net::Handler cancel_handler = [this](net::Exchange& exchange) { return cancel(exchange); };
  const net::Handler session_handler = [this](net::Exchange& exchange) { return session(exchange); };
  router.add("GET", "/health", exactly("/health", health));
  router.add("POST", "/turn", exactly("/turn", turn_handler));
  router.add("POST", "/v1/turn", exactly("/v1/turn", turn_handler));
  router.add("POST", "/v1/turn/cancel", exactly("/v1/turn/cancel", cancel_handler));
  router.add("GET", "/v1/sessions/{id}", session_handler);
  router.add("GET", "/v1/turn", not_there("attaching to a running turn"));
  router.add("POST", "/v1/runs", not_there("the run queue"));
  router.add("GET", "/v1/runs/status", not_there("the run queue"));
}

asio::awaitable<void> TurnServer::turn(net::Exchange& exchange) {
  const net::Request& http = exchange.request();
  auto request = parse_turn_request(http.body, http.headers.get("X-SH-Session-Id"));
  if (!request.ok()) {
    co_await answer(exchange, render_turn_error(request.error()));
    co_return;
  }
  if (request->session_id.empty()) request->session_id = random_hex(kIdBytes);
  TurnRequest ready = *std::move(request);
  co_await run_turn(exchange, std::move(ready));
}

asio::awaitable<void> TurnServer::run_turn(net::Exchange& exchange, TurnRequest request) {
  const std::string session_id = request.session_id;
  TurnRegistry::Entry entry(registry_, session_id, random_hex(kIdBytes));
  const auto client = exchange.aborted().subscribe([&] { entry.abort().request(exchange.aborted().reason()); });

  if (!wants_events(exchange.request())) {
    SilentEvents silent;
    Turn turn(services_, std::move(request), entry.turn_id(), entry.abort(), silent);
    auto outcome = co_await turn.run();
    net::Response response =
        outcome.ok() ? net::Response::json(200, outcome->to_json()) : render_turn_error(outcome.error(), session_id);
    co_await answer(exchange, std::move(response));
    co_return;
  }

  SseSink sink(exchange, options_.keepalive);
  Turn turn(services_, std::move(request), entry.turn_id(), entry.abort(), sink);
  auto outcome = co_await turn.run();
  if (outcome.ok()) {
    co_await sink.done(*outcome);
  } else if (sink.opened()) {
    co_await sink.failed(outcome.error());
  } else {
    co_await sink.close();
    if (sink.opened()) {  // the keep-alive opened the stream in this very moment
      co_await sink.failed(outcome.error());
    } else {
      co_await answer(exchange, render_turn_error(outcome.error(), session_id));
    }
  }
}

asio::awaitable<void> TurnServer::cancel(net::Exchange& exchange) {
  auto request = parse_cancel(exchange.request().body);
  if (!request.ok()) {
    co_await answer(exchange, render_turn_error(request.error()));
    co_return;
  }
  auto turn_id = co_await registry_.cancel(request->session_id, request->turn_id);
  if (!turn_id.ok()) {
    co_await answer(exchange, render_turn_error(turn_id.error(), request->session_id));
    co_return;
  }
  const json::object body{{"sessionId", request->session_id}, {"turnId", *turn_id}, {"cancelled", true}};
  co_await answer(exchange, net::Response::json(200, body));
}

asio::awaitable<void> TurnServer::session(net::Exchange& exchange) {
  const std::string id(exchange.request().param("id"));
  // The exact target, as for the other routes: no query, nothing encoded.
  if (exchange.request().target != "/v1/sessions/" + id || !check_session_id(id).ok()) {
    const Error error{ErrorKind::session_not_found, "there is no such session", {}, {}};
    co_await answer(exchange, render_turn_error(error));
    co_return;
  }
  store::SessionLog log(services_.redis);
  auto info = co_await log.info(id);
  net::Response response =
      info.ok() ? net::Response::json(200, session_json(*info)) : render_turn_error(info.error(), id);
  co_await answer(exchange, std::move(response));
}

}  // namespace roost::agent
