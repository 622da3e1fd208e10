// Which sandboxes are there: the Redis hash `sh:sandbox:records`, one field per sandbox id. A record lives until its
// `expires`, which is compared with Redis's own time, so that neither a killed relay nor a wrong clock leaves a stale
// one; whoever reads prunes.
//
// Used from the executor of its Redis client.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/result.h"
#include "store/redis.h"

namespace roost::store {

inline constexpr std::chrono::milliseconds kPresenceTtl{45'000};

struct SandboxRecord {
  std::string sandbox_id;
  std::map<std::string, std::string> labels;
  std::vector<std::string> capabilities;
  std::uint32_t capacity_max = 0;  // commands at once
  std::string transport = "grpc";
  std::string relay;            // host:port to call Exec on
  std::int64_t epoch = 0;       // of the attach; a newer one replaces an older one
  std::int64_t expires_ms = 0;  // unix milliseconds by Redis's clock; set by put()

  bool can(std::string_view capability) const;
};

class Presence {
 public:
  explicit Presence(std::shared_ptr<Redis> redis) : redis_(std::move(redis)) {}

  // Writes the record, living `ttl` from now; also the way to refresh it. A record of a newer epoch stays as it is.
  asio::awaitable<Result<void>> put(SandboxRecord record, std::chrono::milliseconds ttl = kPresenceTtl);
  // Removes the record unless a newer epoch has replaced it.
  asio::awaitable<Result<void>> remove(std::string sandbox_id, std::int64_t epoch);
  // The live ones, by id. Expired and unreadable records are deleted.
  asio::awaitable<Result<std::vector<SandboxRecord>>> list();

 private:
  std::shared_ptr<Redis> redis_;
};

}  // namespace roost::store
