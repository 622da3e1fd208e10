// The table of settings: the one place that knows a setting's name, flag, variable, type, range, default and help.

#include "core/config.h"

namespace roost {
namespace {

constexpr double kNoMax = 9.0e15;
constexpr auto kBool = SettingType::boolean;
constexpr auto kInt = SettingType::integer;
constexpr auto kNum = SettingType::number;
constexpr auto kText = SettingType::text;
constexpr auto kChoice = SettingType::choice;

// clang-format off
constexpr Setting kSettings[] = {
  // name, flag, flag under up, environment, type, default, min, max, choices, commands, secret, help
  {"log.format", "--log-format", "", "ROOST_LOG_FORMAT", kChoice, "json", 0, 0, "json|text", kEveryCommand, false, "log lines as JSON objects or as text for people"},
  {"log.level", "--log-level", "", "ROOST_LOG_LEVEL", kChoice, "info", 0, 0, "debug|info|warn|error", kEveryCommand, false, "the least important level that is logged"},

  {"up.state_dir", "--state-dir", "", "ROOST_STATE_DIR", kText, "", 0, 0, "", kUp | kDemo, false, "folder for Redis's append-only file, sockets, workspaces and logs; default ./state beside roost.toml"},
  {"up.sandboxes", "--sandboxes", "", "ROOST_SANDBOXES", kInt, "1", 0, 64, "", kUp, false, "sandboxes to start"},
  {"up.demo", "--demo", "", "", kBool, "false", 0, 0, "", kUp, false, "run the demo job once when everything is ready, then keep serving"},
  {"up.once", "--once", "", "", kBool, "false", 0, 0, "", kUp, false, "with --demo: exit after the job"},

  {"engine.model", "-m,--model", "", "ROOST_MODEL", kText, "", 0, 0, "", kEngine | kUp, false, "the GGUF model file"},
  {"engine.alias", "--alias", "", "ROOST_ALIAS", kText, "", 0, 0, "", kEngine | kUp, false, "the model's name in answers; default the file's name"},
  {"engine.host", "--host", "--engine-host", "ROOST_ENGINE_HOST", kText, "127.0.0.1", 0, 0, "", kEngine | kUp, false, "address to listen on"},
  {"engine.port", "--port", "--engine-port", "ROOST_ENGINE_PORT", kInt, "8090", 0, 65535, "", kEngine | kUp, false, "port to listen on; 0 = any free one"},
  {"engine.ctx", "-c,--ctx-size", "", "ROOST_CTX_SIZE", kInt, "0", 0, 16777216, "", kEngine | kUp, false, "KV cells; 0 = what fits in 60 % of free memory, at most 4 x the training length"},
  {"engine.parallel", "--parallel", "", "ROOST_PARALLEL", kInt, "8", 1, 256, "", kEngine | kUp, false, "sequences for sessions"},
  {"engine.max_decoding", "--max-decoding", "", "ROOST_MAX_DECODING", kInt, "0", 0, 256, "", kEngine | kUp, false, "sessions that advance per step; 0 = as many as --parallel"},
  {"engine.max_pools", "--polykv-max-pools", "", "ROOST_MAX_POOLS", kInt, "16", 0, 255, "", kEngine | kUp, false, "pools at once; 0 turns pools off (--parallel + this at most 256)"},
  {"engine.threads", "-t,--threads", "", "ROOST_THREADS", kInt, "0", 0, 1024, "", kEngine | kUp, false, "compute threads; 0 = the CPUs this process may use"},
  {"engine.batch", "-b,--batch-size", "", "ROOST_BATCH_SIZE", kInt, "2048", 32, 65536, "", kEngine | kUp, false, "tokens of one step at most"},
  {"engine.ubatch", "-ub,--ubatch-size", "", "ROOST_UBATCH_SIZE", kInt, "512", 32, 65536, "", kEngine | kUp, false, "tokens that libllama computes at once"},
  {"engine.cache_type_k", "--cache-type-k", "", "ROOST_CACHE_TYPE_K", kChoice, "f16", 0, 0, "f32|f16|bf16|q8_0|q4_0", kEngine | kUp, false, "type of K in the KV cache"},
  {"engine.cache_type_v", "--cache-type-v", "", "ROOST_CACHE_TYPE_V", kChoice, "f16", 0, 0, "f32|f16|bf16|q8_0|q4_0", kEngine | kUp, false, "type of V in the KV cache"},
  {"engine.kv_unified", "--kv-unified", "", "ROOST_KV_UNIFIED", kBool, "true", 0, 0, "", kEngine | kUp, false, "one KV buffer for all sequences (copy-free sharing)"},
  {"engine.gpu_layers", "-ngl,--gpu-layers", "", "ROOST_GPU_LAYERS", kInt, "999", 0, 9999, "", kEngine | kUp, false, "layers on a GPU, where ggml was built with one"},
  {"engine.auto_share", "--auto-share", "", "ROOST_AUTO_SHARE", kBool, "true", 0, 0, "", kEngine | kUp, false, "requests that name no pool share the longest resident prefix too"},
  {"engine.max_gap_ms", "--max-gap-ms", "", "ROOST_MAX_GAP_MS", kInt, "200", 1, 60000, "", kEngine | kUp, false, "bound of a step while sessions decode, milliseconds"},
  {"engine.min_prefill", "--min-prefill", "", "ROOST_MIN_PREFILL", kInt, "32", 1, 4096, "", kEngine | kUp, false, "prompt tokens that a step takes at least while prompts wait"},
  {"engine.default_reserve", "--default-reserve", "", "ROOST_DEFAULT_RESERVE", kInt, "1024", 1, 1048576, "", kEngine | kUp, false, "cells reserved for the answer of a request at most, at first"},
  {"engine.pool_ttl_s", "--pool-ttl", "", "ROOST_POOL_TTL", kNum, "60", 0, kNoMax, "", kEngine | kUp, false, "seconds that an unused unpinned pool is kept before it may be reclaimed"},
  {"engine.pin_limit", "--pin-limit", "", "ROOST_PIN_LIMIT", kNum, "0.8", 0, 1, "", kEngine | kUp, false, "share of the cells that pinned pools may hold"},
  {"engine.session_ttl_s", "--session-ttl", "", "ROOST_SESSION_TTL", kNum, "600", 0, kNoMax, "", kEngine | kUp, false, "seconds after its last request that a session is known"},
  {"engine.tps_tau_ms", "--tps-tau-ms", "", "ROOST_TPS_TAU_MS", kInt, "2000", 10, 600000, "", kEngine | kUp, false, "time constant of the tokens/s window, milliseconds"},
  {"engine.max_queued", "--max-queued-requests", "", "ROOST_MAX_QUEUED_REQUESTS", kInt, "256", 1, 65536, "", kEngine | kUp, false, "requests waiting for a sequence; more are refused with 429"},
  {"engine.slow_client_s", "--slow-client-s", "", "ROOST_SLOW_CLIENT_S", kNum, "30", 0.1, 3600, "", kEngine | kUp, false, "seconds that a stream may stand still for its client before it is cancelled"},
  {"engine.max_body", "--max-body", "", "ROOST_MAX_BODY", kInt, "67108864", 1024, 1073741824, "", kEngine | kUp, false, "bytes of a request body"},
  {"engine.grace_s", "--grace", "", "ROOST_GRACE", kNum, "20", 0, 3600, "", kEngine | kUp, false, "seconds that running generations may take at SIGTERM"},
  {"engine.api_key", "--api-key", "", "ROOST_API_KEY", kText, "", 0, 0, "", kEngine | kUp | kDemo, true, "key that requests must carry (Authorization: Bearer)"},
  {"engine.chat_template_file", "--chat-template-file", "", "ROOST_CHAT_TEMPLATE_FILE", kText, "", 0, 0, "", kEngine | kUp, false, "a Jinja chat template to use instead of the model's"},

  {"host.turns_per_worker", "--turns-per-worker", "", "SH_TURNS_PER_WORKER", kInt, "", 1, 65535, "", kHost | kWorker | kUp, false, "turns in flight per worker (S); caps turns, not sessions"},
  {"host.workers", "--workers", "", "SH_WORKERS", kInt, "", 1, 1024, "", kHost | kUp, false, "worker processes (W); default the CPUs this process may use"},
  {"host.address", "--host", "", "SH_HOST", kText, "127.0.0.1", 0, 0, "", kHost | kUp, false, "address of the public port"},
  {"host.port", "--port", "", "PORT", kInt, "8080", 0, 65535, "", kHost | kUp, false, "the public port; 0 = any free one"},
  {"host.admin_port", "--admin-port", "", "SH_ADMIN_PORT", kInt, "8081", 0, 65535, "", kHost | kUp, false, "the admin port (metrics, health); 0 = any free one"},
  {"host.admin_host", "--admin-host", "", "SH_ADMIN_HOST", kText, "127.0.0.1", 0, 0, "", kHost | kUp, false, "address of the admin port, an IP literal"},
  {"host.routing_policy", "--routing-policy", "", "SH_ROUTING_POLICY", kChoice, "leastInFlight", 0, 0, "leastInFlight|stickyBySession", kHost | kUp, false, "how a worker is chosen"},
  {"host.routing_scope", "--routing-scope", "", "SH_ROUTING_SCOPE", kChoice, "connection", 0, 0, "connection|request", kHost | kUp, false, "route each connection once, or each request"},
  {"host.restart_backoff_ms", "--restart-backoff-ms", "", "SH_WORKER_RESTART_BACKOFF_MS", kInt, "250", 0, 30000, "", kHost | kUp, false, "first delay before a crashed worker is started again, milliseconds; doubles up to 30 s"},
  {"host.stats_interval_ms", "--stats-interval-ms", "", "SH_STATS_INTERVAL_MS", kInt, "1000", 10, 60000, "", kHost | kWorker | kUp, false, "how often a worker reports, milliseconds"},
  {"host.keepalive_s", "--keepalive-s", "", "SH_KEEPALIVE_S", kNum, "75", 0.1, 86400, "", kHost | kWorker | kUp, false, "seconds that a connection may be idle"},
  {"host.max_connections", "--max-connections", "", "SH_MAX_CONNECTIONS", kInt, "65536", 1, 1048576, "", kHost | kUp, false, "connections that the supervisor holds at once"},
  {"host.drain_s", "--drain-s", "", "SH_DRAIN_S", kNum, "20", 0, 3600, "", kHost | kWorker | kUp, false, "seconds that turns in flight may take at SIGTERM"},

  {"worker.listen", "--listen", "", "SH_LISTEN", kText, "", 0, 0, "", kWorker, false, "serve on host:port (or :port) without a host in front"},
  {"worker.redis_url", "--redis-url", "", "REDIS_URL", kText, "", 0, 0, "", kHost | kWorker | kRelay | kUp, true, "redis://host:port/db or unix:///path; `roost up` starts a private one when unset"},
  {"worker.model_url", "--model-url", "", "SH_MODEL_URL", kText, "http://127.0.0.1:8090", 0, 0, "", kHost | kWorker | kUp, false, "the model tier: a Roost engine or any OpenAI-compatible server"},
  {"worker.model_protocol", "--model-protocol", "", "SH_MODEL_PROTOCOL", kChoice, "auto", 0, 0, "openai|anthropic|auto", kHost | kWorker | kUp, false, "protocol of the model tier"},
  {"worker.model", "--model-name", "", "SH_MODEL", kText, "default", 0, 0, "", kHost | kWorker | kUp, false, "model name to ask the model tier for"},
  {"worker.model_api_key", "--model-api-key", "", "SH_MODEL_API_KEY", kText, "", 0, 0, "", kHost | kWorker | kUp, true, "key for the model tier"},
  {"worker.max_tokens", "--max-tokens", "", "SH_MAX_TOKENS", kInt, "1024", 1, 1048576, "", kHost | kWorker | kUp, false, "tokens of one model reply at most"},
  {"worker.max_turns", "--max-turns", "", "SH_MAX_TURNS", kInt, "50", 1, 10000, "", kHost | kWorker | kUp, false, "model calls of one turn at most"},
  {"worker.max_body", "--max-body", "--host-max-body", "SH_MAX_BODY", kInt, "8388608", 1024, 1073741824, "", kHost | kWorker | kUp, false, "bytes of a turn's body"},
  {"worker.lease_s", "--lease-s", "", "SH_LEASE_S", kNum, "30", 1, 3600, "", kHost | kWorker | kUp, false, "life of a session's lease without renewal, seconds"},
  {"worker.sandbox_cap", "--sandbox-cap", "", "KAGENTI_SANDBOX_CAP", kInt, "", 1, 65536, "", kHost | kWorker | kUp, false, "turns per sandbox; default 4 x cores"},
  {"worker.exec_timeout_s", "--exec-timeout-s", "", "SH_EXEC_TIMEOUT_S", kInt, "1800", 0, 86400, "", kHost | kWorker | kUp, false, "time-out of one tool call, seconds; 0 = none"},

  {"relay.host", "--host", "--relay-host", "SH_RELAY_HOST", kText, "127.0.0.1", 0, 0, "", kRelay | kUp, false, "address that sandboxes attach to"},
  {"relay.port", "--port", "--relay-port", "SH_RELAY_PORT", kInt, "8443", 0, 65535, "", kRelay | kUp, false, "port that sandboxes attach to; 0 = any free one"},
  {"relay.exec_addr", "--exec-addr", "", "SH_RELAY_EXEC_ADDR", kText, "127.0.0.1:9444", 0, 0, "", kRelay | kUp, false, "address that workers call Exec on"},
  {"relay.address", "--relay-addr", "", "SH_RELAY_ADDR", kText, "127.0.0.1:9444", 0, 0, "", kHost | kWorker, false, "the relay's Exec address, for workers"},
  {"relay.token", "--relay-token", "", "SH_RELAY_TOKEN", kText, "", 0, 0, "", kRelay, true, "token that sandboxes attach with; none set = every attach is refused"},
  {"relay.tokens_file", "--relay-tokens-file", "", "SH_RELAY_TOKENS_FILE", kText, "", 0, 0, "", kRelay, false, "JSON object {sandbox id: token}"},
  {"relay.exec_token", "--relay-exec-token", "", "SH_RELAY_EXEC_TOKEN", kText, "", 0, 0, "", kRelay | kHost | kWorker, true, "token that workers call Exec with; may not equal the attach token"},

  {"sandbox.id", "--id", "", "SANDBOX_ID", kText, "", 0, 0, "", kSandbox, false, "this sandbox's id; default the host's name"},
  {"sandbox.token", "--token", "", "SANDBOX_TOKEN", kText, "", 0, 0, "", kSandbox, true, "token to attach with"},
  {"sandbox.relay", "--relay", "", "RELAY_ADDR", kText, "127.0.0.1:8443", 0, 0, "", kSandbox, false, "the relay to attach to"},
  {"sandbox.workspace", "--workspace", "", "SANDBOX_WORKSPACE", kText, "./workspaces", 0, 0, "", kSandbox, false, "folder that holds the workspaces"},
  {"sandbox.isolation", "--isolation", "", "SANDBOX_ISOLATION", kChoice, "bwrap", 0, 0, "bwrap|none", kSandbox | kUp, false, "how a command is isolated; none is always explicit"},
  {"sandbox.net", "--net", "", "SANDBOX_NET", kBool, "false", 0, 0, "", kSandbox | kUp, false, "commands may use the network"},
  {"sandbox.capacity", "--capacity", "", "SANDBOX_CAPACITY", kInt, "", 1, 65536, "", kSandbox | kUp, false, "commands at once; default 4 x cores"},
  {"sandbox.queue", "--queue", "", "SANDBOX_QUEUE", kInt, "64", 0, 65536, "", kSandbox | kUp, false, "commands waiting; more are refused as busy"},

  {"demo.agents", "--agents", "", "", kInt, "4", 1, 64, "", kDemo | kUp, false, "agents of the demo job"},
  {"demo.host_url", "--host-url", "", "ROOST_HOST_URL", kText, "http://127.0.0.1:8080", 0, 0, "", kDemo, false, "the host to run the job on"},
  {"demo.engine_url", "--engine-url", "", "ROOST_ENGINE_URL", kText, "http://127.0.0.1:8090", 0, 0, "", kDemo, false, "the engine behind it"},
  {"demo.json", "--json", "", "", kBool, "false", 0, 0, "", kDemo | kUp, false, "print the demo's result as one JSON object too"},
};
// clang-format on

}  // namespace

std::span<const Setting> settings() { return kSettings; }

}  // namespace roost
