#include "api/server.h"

#include <fmt/format.h>

#include <utility>

#include "api/access.h"
#include "api/generation.h"
#include "api/pool_routes.h"
#include "api/respond.h"
#include "api/session_routes.h"
#include "api/status_routes.h"
#include "api/text_routes.h"

namespace roost::api {
namespace {

struct GenerationPath {
  std::string_view path;
  Route route;
};
constexpr GenerationPath kGeneration[] = {{"/v1/chat/completions", Route::chat},
                                          {"/chat/completions", Route::chat},
                                          {"/v1/completions", Route::completion},
                                          {"/completions", Route::completion},
                                          {"/completion", Route::native}};

// Routes of the design that a later part brings.
struct LaterRoute {
  std::string_view method, path, what;
};
constexpr LaterRoute kLater[] = {
    {"POST", "/v1/messages", "the Anthropic protocol"},
    {"POST", "/v1/messages/count_tokens", "the Anthropic protocol"},
    {"POST", "/polykv/sessions/{id}/compact", "compaction"},
    {"POST", "/polykv/pools/{id}/admission", "admission policies"},
    {"GET", "/polykv/pools/{id}/capacity", "admission policies"},
    {"POST", "/slots/{id}", "saving and restoring slots"},
};

net::awaitable<void> not_there(const ApiContext& context, net::Exchange& exchange, std::string_view what) {
  Error error{ErrorKind::not_supported, fmt::format("{}: not in this version of roost", what), {}, {}};
  co_await respond_error(context, exchange, std::move(error));
}

bool is_generation(const net::Request& head) {
  if (head.method != "POST") return false;
  for (const auto& g : kGeneration) {
    if (g.path == head.path) return true;
  }
  return false;
}

net::Response render(const ApiContext& context, const Error& error) {
  net::Response response = error_response(error);
  response.headers.set(kBootIdHeader, context.boot_id);
  return response;
}

// Before the body is read: no work for those who may not, and none for what would only be refused.
std::optional<net::Response> refuse_early(const ApiContext& context, const net::Request& head) {
  if (const auto access = check_access(head, context.api_key); !access) return render(context, access.error());
  if (is_generation(head)) {
    const auto view = context.engine.view();
    const std::size_t max_queued = context.engine.options().max_queued;
    if (view->n_queued >= 0 && static_cast<std::size_t>(view->n_queued) >= max_queued) {
      return render(context, {ErrorKind::server_full,
                              fmt::format("{} requests are waiting, at most {}", view->n_queued, max_queued),
                              {},
                              {}});
    }
  }
  return std::nullopt;
}

}  // namespace

net::Router make_router(ApiContext& context) {
  net::Router router;
  for (const auto& g : kGeneration) {
    router.add("POST", g.path,
               [&context, route = g.route](net::Exchange& x) { return serve_generation(context, x, route); });
  }
  add_text_routes(router, context);
  add_status_routes(router, context);
  add_tps_route(router, context);
  add_pool_routes(router, context);
  add_session_routes(router, context);
  for (const auto& later : kLater) {
    router.add(later.method, later.path,
               [&context, what = later.what](net::Exchange& x) { return not_there(context, x, what); });
  }
  return router;
}

net::ConnectionOptions connection_options(const ApiContext& context, std::size_t max_body, net::Drain* drain) {
  net::ConnectionOptions options;
  options.max_body = max_body;
  options.render_error = [&context](const Error& error) { return render(context, error); };
  options.on_head = [&context](const net::Request& head) { return refuse_early(context, head); };
  options.drain = drain;
  return options;
}

}  // namespace roost::api
