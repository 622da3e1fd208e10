#include "api/status_routes.h"

#include <fmt/format.h>

#include <utility>

#include "api/pool_status.h"
#include "api/respond.h"
#include "core/limits.h"
#include "core/version.h"

namespace roost::api {
namespace {

// Strings whose behaviour is there and tested.
constexpr std::string_view kFeatures[] = {"attach_in_response_v1",
                                          "pool_match_in_response_v1",
                                          "pool_unknown_in_response_v1",
                                          "boot_id_v1",
                                          "stream_keepalive_v1",
                                          "kv_status_v1",
                                          "session_close_v1",
                                          "session_close_body_v1",
                                          "pool_unowned_v1",
                                          "pool_delete_alias_v1",
                                          "tps_snapshot_v1",
                                          "tps_real_pool_id_v1",
                                          "read_routes_snapshot_v1",
                                          "slots_nonblocking_v1",
                                          "graceful_shutdown_v1"};

json::object health_json(const ApiContext& context) {
  return {{"status", "ok"}, {"boot_id", context.boot_id}, {"started_at", context.started_at}, {"version", kVersion}};
}

net::awaitable<void> health(ApiContext& context, net::Exchange& exchange) {
  if (!context.engine.view()->healthy) {
    Error error{ErrorKind::unavailable, "the model fails to decode", {{"boot_id", context.boot_id}}, {}};
    co_await respond_error(context, exchange, std::move(error));
    co_return;
  }
  json::value body = health_json(context);
  co_await respond_json(context, exchange, 200, std::move(body));
}

json::object polykv_json(const ApiContext& context) {
  const auto& o = context.engine.options();
  return {{"pools_enabled", context.pools_on()},
          {"max_pools", o.max_pools},
          {"floor", nullptr},
          {"mode", nullptr},
          {"auto_share", o.auto_share},
          {"pin_limit", o.pin_limit},
          {"pool_ttl_s", o.pool_ttl_s},
          {"session_ttl_s", o.session_ttl_s}};
}

json::object kv_props(const ApiContext& context) {
  const KvDescription& k = context.kv;
  json::object out{{"type_k", k.type_k},
                   {"type_v", k.type_v},
                   {"unified", k.unified},
                   {"swa_full", k.swa_full},
                   {"flash_attention", k.flash_attention},
                   {"attention", k.attention},
                   {"recurrent", k.recurrent}};
  if (k.swa_window > 0) {
    out["swa_window"] = k.swa_window;
  } else {
    out["swa_window"] = nullptr;
  }
  return out;
}

using Body = json::value (*)(const ApiContext&);

net::awaitable<void> send_body(ApiContext& context, net::Exchange& exchange, Body body) {
  json::value value = body(context);
  co_await respond_json(context, exchange, 200, std::move(value));
}

net::awaitable<void> metrics(ApiContext& context, net::Exchange& exchange) {
  net::Response response =
      net::Response::text(200, metrics_text(*context.engine.view()), "text/plain; version=0.0.4; charset=utf-8");
  co_await respond(context, exchange, std::move(response));
}

// One metric family of Prometheus' text format.
struct Family {
  std::string& out;
  std::string_view name;
  Family(std::string& text, std::string_view family, std::string_view type, std::string_view help)
      : out(text), name(family) {
    out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  template <class T>
  void value(T v) {
    out += fmt::format("{} {}\n", name, v);
  }
  template <class T>
  void value(kv::PoolId pool, T v) {
    out += fmt::format("{}{{pool=\"{}\"}} {}\n", name, pool, v);
  }
};

double pool_tps(const engine::PoolView& pool) {
  double sum = 0;
  for (const auto& s : pool.sessions) sum += s.tps_ewma;
  return sum;
}

void pool_metrics(const engine::EngineView& view, std::string& out) {
  Family tps(out, "opencoti_polykv:gen_throughput_tps", "gauge", "Tokens per second of the pool's sessions.");
  for (const auto& p : view.pools) tps.value(p.pool_id, pool_tps(p));
  Family bytes(out, "opencoti_polykv:pool_kv_bytes", "gauge", "Bytes of the cells that the pool owns.");
  for (const auto& p : view.pools) bytes.value(p.pool_id, p.own_kv_bytes);
  Family sessions(out, "opencoti_polykv:pool_sessions", "gauge", "Sessions attached to the pool.");
  for (const auto& p : view.pools) sessions.value(p.pool_id, p.sessions.size());
  Family hits(out, "opencoti_polykv:prefix_cache_hits_total", "counter",
              "Requests that shared a prefix with the pool.");
  for (const auto& p : view.pools) hits.value(p.pool_id, p.hits);
  Family queries(out, "opencoti_polykv:queries_total", "counter", "Requests that named the pool.");
  for (const auto& p : view.pools) queries.value(p.pool_id, p.queries);
}

}  // namespace

json::object props_json(const ApiContext& context) {
  const engine::ModelInfo& info = context.text.info();
  json::array features;
  for (const auto f : kFeatures) features.push_back(json::value(f));
  json::object caps;
  for (const auto& [name, value] : info.template_caps) caps[name] = value;
  return {{"default_generation_settings", json::object{{"n_ctx", context.engine.session_limit()}}},
          {"total_slots", context.engine.options().parallel},
          {"model_alias", info.name},
          {"model_path", info.path},
          {"chat_template", info.chat_template},
          {"chat_template_caps", std::move(caps)},
          {"bos_token", info.bos_token},
          {"eos_token", info.eos_token},
          {"build_info", fmt::format("roost {}", kVersion)},
          {"modalities", json::object{{"vision", false}, {"audio", false}}},
          {"boot_id", context.boot_id},
          {"started_at", context.started_at},
          {"features", std::move(features)},
          {"opencoti", json::object{{"polykv", polykv_json(context)}, {"kv", kv_props(context)}}}};
}

json::object models_json(const ApiContext& context) {
  const engine::ModelInfo& info = context.text.info();
  json::object meta{{"vocab_type", info.vocab_type},
                    {"n_vocab", info.vocabulary_size},
                    {"n_ctx", context.engine.session_limit()},
                    {"n_ctx_train", info.training_length},
                    {"n_embd", info.embedding_length},
                    {"n_params", info.parameters},
                    {"size", info.size_bytes}};
  json::object model{{"id", info.name},
                     {"object", "model"},
                     {"created", static_cast<std::int64_t>(context.started_at)},
                     {"owned_by", "roost"},
                     {"meta", std::move(meta)}};
  json::object body;
  body["object"] = "list";
  json::array data;
  data.push_back(std::move(model));
  body["data"] = std::move(data);
  return body;
}

json::object config_json(const ApiContext& context) {
  json::object values, bounds;
  for (const Setting& s : settings()) {
    if ((s.commands & kEngine) == 0U) continue;
    values[s.name] = json::object{
        {"value", context.config.printable(s)}, {"source", to_string(context.config.source(s.name))}, {"help", s.help}};
  }
  for (const auto& limit : limits::kAll) {
    bounds[limit.name] = json::object{{"value", limit.value}, {"help", limit.help}};
  }
  json::object body;
  body["settings"] = std::move(values);
  body["limits"] = std::move(bounds);
  return body;
}

std::string metrics_text(const engine::EngineView& v) {
  std::string out;
  Family(out, "llamacpp:prompt_tokens_total", "counter", "Prompt tokens prefilled.").value(v.tokens_prefilled_total);
  Family(out, "llamacpp:tokens_predicted_total", "counter", "Tokens generated.").value(v.tokens_decoded_total);
  Family(out, "llamacpp:predicted_tokens_seconds", "gauge", "Tokens generated per second.").value(v.aggregate_tps);
  Family(out, "llamacpp:requests_processing", "gauge", "Requests in work.").value(v.n_decoding + v.n_prefilling);
  Family(out, "llamacpp:requests_deferred", "gauge", "Requests waiting for a sequence.").value(v.n_queued);
  Family(out, "llamacpp:n_decode_total", "counter", "Steps.").value(v.steps_total);
  Family(out, "roost:prompt_tokens_cached_total", "counter", "Prompt tokens found in the cache.")
      .value(v.tokens_cached_total);
  Family(out, "roost:requests_total", "counter", "Requests.").value(v.requests_total);
  Family(out, "roost:requests_refused_total", "counter", "Requests refused.").value(v.refused_total);
  Family(out, "roost:decode_failures_total", "counter", "Steps that failed.").value(v.decode_failures);
  Family(out, "roost:mean_active_tps", "gauge", "Mean tokens per second of the decoding sessions.")
      .value(v.mean_active_tps);
  Family(out, "roost:kv_cells", "gauge", "KV cells.").value(v.cells_total);
  Family(out, "roost:kv_cells_used", "gauge", "KV cells in use.").value(v.cells_used);
  Family(out, "roost:kv_cells_free", "gauge", "KV cells not in use.").value(v.cells_free);
  Family(out, "roost:kv_cells_evictable", "gauge", "KV cells in use that may be reclaimed.").value(v.evictable);
  Family(out, "roost:kv_cells_protected", "gauge", "KV cells in use that may not.").value(v.protected_cells);
  pool_metrics(v, out);
  return out;
}

void add_status_routes(net::Router& router, ApiContext& context) {
  const auto get = [&](std::string_view path, Body body) {
    router.add("GET", path, [&context, body](net::Exchange& x) { return send_body(context, x, body); });
  };
  for (const std::string_view path : {"/health", "/v1/health"}) {
    router.add("GET", path, [&context](net::Exchange& x) { return health(context, x); });
  }
  get("/props", [](const ApiContext& c) -> json::value { return props_json(c); });
  get("/slots", [](const ApiContext& c) -> json::value { return slots_json(*c.engine.view()); });
  get("/kv", [](const ApiContext& c) -> json::value { return kv_json(*c.engine.view()); });
  get("/config", [](const ApiContext& c) -> json::value { return config_json(c); });
  get("/v1/models", [](const ApiContext& c) -> json::value { return models_json(c); });
  get("/models", [](const ApiContext& c) -> json::value { return models_json(c); });
  router.add("GET", "/metrics", [&context](net::Exchange& x) { return metrics(context, x); });
}

}  // namespace roost::api
