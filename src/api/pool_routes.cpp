#include "api/pool_routes.h"

#include <fmt/format.h>

#include <utility>

#include "api/ask.h"
#include "api/pool_request.h"
#include "api/pool_status.h"
#include "api/pool_tokens.h"
#include "api/respond.h"

namespace roost::api {
namespace {

using engine::PoolCreated;
using engine::PoolReleased;
using engine::RetainAction;

Error pools_off() { return {ErrorKind::pools_off, "pools are off (--polykv-max-pools 0)", {}, {}}; }
Error unknown_pool(kv::PoolId id) {
  return {ErrorKind::unknown_pool, fmt::format("there is no pool {}", id), {{"pool_id", id}}, {}};
}

// An empty body is an empty object.
Result<json::object> read_body(const net::Request& request) {
  if (request.body.find_first_not_of(" \t\r\n") == std::string::npos) return json::object{};
  return parse_json_object(request.body);
}

json::object created_json(const PoolCreated& c) {
  json::object out{{"pool_id", c.pool_id},       {"parent", c.parent},   {"branch_pos", c.branch_pos},
                   {"prefix_len", c.prefix_len}, {"own_len", c.own_len}, {"seq_id", c.seq_id},
                   {"owner", nullptr},           {"reused", c.reused}};
  if (!c.owner.empty()) out["owner"] = c.owner;
  if (!c.warning.empty()) out["warning"] = c.warning;
  return out;
}

json::object released_json(kv::PoolId id, const PoolReleased& r) {
  return {{"pool_id", id}, {"found", r.found}, {"pools_released", r.pools_released}, {"cells_freed", r.cells_freed}};
}

net::awaitable<void> answer_created(ApiContext& context, net::Exchange& exchange, engine::RequestId id,
                                    std::shared_ptr<Reply<PoolCreated>> reply) {
  std::function<void()> on_abort = [&context, id] {
    static_cast<void>(context.engine.post(engine::Cancel{id, engine::FinishReason::cancelled}));
  };
  auto created = co_await Reply<PoolCreated>::wait(reply, exchange.aborted(), std::move(on_abort));
  if (!created) {
    Error error = std::move(created).error();
    co_await respond_error(context, exchange, std::move(error));
    co_return;
  }
  json::value body = created_json(*created);
  co_await respond_json(context, exchange, 200, std::move(body));
}

// Body and source of a create or fork, checked.
struct Wanted {
  PoolRequest request;
  engine::PoolSource source;
};
Result<Wanted> read_wanted(const ApiContext& context, const net::Request& http, bool fork) {
  if (!context.pools_on()) return pools_off();
  ROOST_TRY(body, parse_json_object(http.body));
  const std::int32_t vocabulary = context.text.info().vocabulary_size;
  ROOST_TRY(request, fork ? parse_pool_fork(body, vocabulary) : parse_pool_create(body, vocabulary));
  ROOST_TRY(source, pool_source(context, request));
  return Wanted{std::move(request), std::move(source)};
}

net::awaitable<void> create(ApiContext& context, net::Exchange& exchange) {
  auto wanted = read_wanted(context, exchange.request(), false);
  if (!wanted) {
    Error error = std::move(wanted).error();
    co_await respond_error(context, exchange, std::move(error));
    co_return;
  }
  auto reply = std::make_shared<Reply<PoolCreated>>(exchange.executor());
  engine::PoolCreate command;
  command.id = context.new_request_id();
  command.source = std::move(wanted->source);
  command.options = wanted->request.options;
  command.cache_salt = wanted->request.cache_salt;
  command.done = Reply<PoolCreated>::completion(reply);
  const engine::RequestId id = command.id;
  if (!context.engine.post(std::move(command))) {
    Error error = not_taken(context.engine);
    co_await respond_error(context, exchange, std::move(error));
    co_return;
  }
  co_await answer_created(context, exchange, id, reply);
}

net::awaitable<void> fork(ApiContext& context, net::Exchange& exchange) {
  const auto parent = parse_pool_id(exchange.request().param("id"));
  auto wanted = parent ? read_wanted(context, exchange.request(), true) : Result<Wanted>(parent.error());
  if (!wanted) {
    Error error = std::move(wanted).error();
    co_await respond_error(context, exchange, std::move(error));
    co_return;
  }
  auto reply = std::make_shared<Reply<PoolCreated>>(exchange.executor());
  engine::PoolFork command;
  command.id = context.new_request_id();
  command.parent = *parent;
  command.branch_pos = wanted->request.branch_pos;
  command.source = std::move(wanted->source);
  command.source_is_suffix = wanted->request.is_suffix;
  command.options = wanted->request.options;
  command.done = Reply<PoolCreated>::completion(reply);
  const engine::RequestId id = command.id;
  if (!context.engine.post(std::move(command))) {
    Error error = not_taken(context.engine);
    co_await respond_error(context, exchange, std::move(error));
    co_return;
  }
  co_await answer_created(context, exchange, id, reply);
}

// Posts a command that answers PoolReleased, and sends the answer. `must_exist`: an unknown pool is 404 (dropping one
// that is gone is a success).
using MakeCommand = std::function<engine::EngineCommand(engine::Completion<PoolReleased>)>;
net::awaitable<void> change(ApiContext& context, net::Exchange& exchange, kv::PoolId pool, bool must_exist,
                            MakeCommand make) {
  auto reply = std::make_shared<Reply<PoolReleased>>(exchange.executor());
  Result<PoolReleased> changed(PoolReleased{});
  if (context.engine.post(make(Reply<PoolReleased>::completion(reply)))) {
    std::function<void()> on_abort;  // it takes effect all the same
    changed = co_await Reply<PoolReleased>::wait(reply, exchange.aborted(), std::move(on_abort));
  } else {
    changed = not_taken(context.engine);
  }
  if (changed && must_exist && !changed->found) changed = unknown_pool(pool);
  if (!changed) {
    Error error = std::move(changed).error();
    co_await respond_error(context, exchange, std::move(error));
    co_return;
  }
  json::value body = released_json(pool, *changed);
  co_await respond_json(context, exchange, 200, std::move(body));
}

Result<kv::PoolId> pool_of_path(const ApiContext& context, const net::Exchange& exchange) {
  if (!context.pools_on()) return pools_off();
  return parse_pool_id(exchange.request().param("id"));
}

net::awaitable<void> retain(ApiContext& context, net::Exchange& exchange, RetainAction action) {
  const auto pool = pool_of_path(context, exchange);
  if (!pool) {
    Error error = pool.error();
    co_await respond_error(context, exchange, std::move(error));
    co_return;
  }
  const bool must_exist = action == RetainAction::pin || action == RetainAction::unpin;
  const kv::PoolId id = *pool;
  MakeCommand make = [id, action](engine::Completion<PoolReleased> done) {
    return engine::EngineCommand(engine::PoolRetain{id, action, std::move(done)});
  };
  co_await change(context, exchange, id, must_exist, std::move(make));
}

Result<bool> wants_recursive(const net::Request& request) {
  ROOST_TRY(body, read_body(request));
  ROOST_TRY(recursive, ObjectReader(body).boolean("recursive"));
  const std::string* query = request.query_value("recursive");
  return recursive.value_or(query != nullptr && (*query == "1" || *query == "true"));
}

net::awaitable<void> release(ApiContext& context, net::Exchange& exchange) {
  const auto pool = pool_of_path(context, exchange);
  const auto recursive = pool ? wants_recursive(exchange.request()) : Result<bool>(pool.error());
  if (!recursive) {
    Error error = recursive.error();
    co_await respond_error(context, exchange, std::move(error));
    co_return;
  }
  const kv::PoolId id = *pool;
  const bool all = *recursive;
  MakeCommand make = [id, all](engine::Completion<PoolReleased> done) {
    return engine::EngineCommand(engine::PoolRelease{id, all, std::move(done)});
  };
  co_await change(context, exchange, id, false, std::move(make));
}

net::awaitable<void> list(ApiContext& context, net::Exchange& exchange, bool one) {
  std::optional<kv::PoolId> root;
  Error error;
  bool failed = !context.pools_on();
  if (failed) error = pools_off();
  if (!failed && one) {
    const auto id = parse_pool_id(exchange.request().param("id"));
    failed = !id.ok();
    if (failed) {
      error = id.error();
    } else {
      root = *id;
    }
  }
  std::optional<json::object> body;
  if (!failed) {
    const std::string* tokens = exchange.request().query_value("tokens");
    body = pools_json(*context.engine.view(), root, tokens != nullptr && *tokens == "1");
    if (!body) error = unknown_pool(root.value_or(kv::kNoPool));
  }
  if (!body) {
    co_await respond_error(context, exchange, std::move(error));
    co_return;
  }
  json::value value = std::move(*body);
  co_await respond_json(context, exchange, 200, std::move(value));
}

}  // namespace

void add_pool_routes(net::Router& router, ApiContext& context) {
  const auto add = [&](std::string_view method, std::string_view path, auto handler) {
    router.add(method, path, [&context, handler](net::Exchange& exchange) { return handler(context, exchange); });
  };
  add("GET", "/polykv/pools", [](ApiContext& c, net::Exchange& x) { return list(c, x, false); });
  add("POST", "/polykv/pools", create);
  add("GET", "/polykv/pools/{id}", [](ApiContext& c, net::Exchange& x) { return list(c, x, true); });
  add("DELETE", "/polykv/pools/{id}", release);
  add("POST", "/polykv/pools/{id}/release", release);
  add("POST", "/polykv/pools/{id}/fork", fork);
  const std::pair<std::string_view, RetainAction> actions[] = {{"pin", RetainAction::pin},
                                                               {"unpin", RetainAction::unpin},
                                                               {"evict", RetainAction::evict},
                                                               {"flush", RetainAction::flush}};
  for (const auto& [name, action] : actions) {
    add("POST", fmt::format("/polykv/pools/{{id}}/{}", name),
        [a = action](ApiContext& c, net::Exchange& x) { return retain(c, x, a); });
  }
}

}  // namespace roost::api
