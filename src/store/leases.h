// Leases: how many turns use a sandbox. Sorted set `sh:sandbox:<id>:leases`, member = holder, score = expiry in unix
// milliseconds by Redis's clock. A holder that crashes frees its place by expiry. Taking a place is one script, so that
// concurrent holders never exceed the cap.
//
// Used from the executor of its Redis client.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/result.h"
#include "store/redis.h"

namespace roost::store {

inline constexpr std::chrono::milliseconds kLeaseTtl{60'000};

// Places of one sandbox: the smaller of the configured cap (0 = 4 x cores) and what the sandbox says it takes (0 = not
// said).
std::size_t lease_cap(std::int64_t configured, std::uint32_t capacity_max, unsigned cores);

class Leases {
 public:
  explicit Leases(std::shared_ptr<Redis> redis) : redis_(std::move(redis)) {}

  struct Taken {
    bool taken = false;
    std::size_t held = 0;  // places in use afterwards
  };
  // `holder` is unique per turn; one that holds a place already keeps it and extends it.
  asio::awaitable<Result<Taken>> take(std::string sandbox_id, std::string holder, std::size_t cap,
                                      std::chrono::milliseconds ttl = kLeaseTtl);
  // False when the lease is gone (it had expired).
  asio::awaitable<Result<bool>> extend(std::string sandbox_id, std::string holder,
                                       std::chrono::milliseconds ttl = kLeaseTtl);
  asio::awaitable<Result<void>> release(std::string sandbox_id, std::string holder);
  // Places in use now.
  asio::awaitable<Result<std::size_t>> held(std::string sandbox_id);

 private:
  std::shared_ptr<Redis> redis_;
};

}  // namespace roost::store
