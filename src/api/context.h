// What every route of the engine's server has at hand. Made once; outlives the server.
#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "core/clock.h"
#include "core/config.h"
#include "engine/engine.h"
#include "engine/text_model.h"

namespace roost::api {

// What the cache really is, for /props and /kv.
struct KvDescription {
  std::string type_k, type_v;
  bool unified = true;
  bool swa_full = false;
  bool flash_attention = false;
  std::string attention = "stock";
  std::int32_t swa_window = 0;
  bool recurrent = false;
};

struct ApiContext {
  engine::Engine& engine;
  const engine::TextModel& text;
  const Config& config;
  const Clock& clock;
  KvDescription kv;
  std::string boot_id;
  double started_at = 0;                   // unix seconds
  std::string api_key;                     // empty = none needed
  std::function<void()> request_shutdown;  // any thread
  std::atomic<std::uint64_t> next_request{1};

  engine::RequestId new_request_id() { return next_request.fetch_add(1); }
  bool pools_on() const { return engine.options().max_pools > 0; }
};

}  // namespace roost::api
