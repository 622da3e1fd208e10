#include "api/respond.h"

namespace roost::api {

net::awaitable<void> respond(const ApiContext& context, net::Exchange& exchange, net::Response response) {
  response.headers.set(kBootIdHeader, context.boot_id);
  const auto sent = co_await exchange.send(std::move(response));
  static_cast<void>(sent);
}

net::awaitable<void> respond_json(const ApiContext& context, net::Exchange& exchange, int status, json::value body) {
  net::Response response = net::Response::json(status, body);
  co_await respond(context, exchange, std::move(response));
}

net::awaitable<void> respond_error(const ApiContext& context, net::Exchange& exchange, Error error) {
  net::Response response = error_response(error);
  co_await respond(context, exchange, std::move(response));
}

}  // namespace roost::api
