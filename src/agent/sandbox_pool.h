// The sandboxes that the relay knows, as the turns of this worker use them: presence says which are alive, leases say
// how full they are, and commands go through the relay's Exec listener.
//
// Used from one executor, the Redis client's.
#pragma once

#include <cstdint>
#include <memory>

#include "agent/sandbox_port.h"
#include "store/leases.h"
#include "store/presence.h"

namespace roost::agent {

class SandboxPool final : public SandboxPort {
 public:
  struct Options {
    std::int64_t cap = 0;  // turns per sandbox; 0 = 4 x cores
    unsigned cores = 1;
  };
  SandboxPool(asio::any_io_executor executor, std::shared_ptr<store::Redis> redis,
              std::shared_ptr<sandbox::ExecClient> exec, Options options);

  asio::awaitable<Result<std::unique_ptr<SandboxSeat>>> take(std::string holder, std::string preferred) override;

 private:
  struct Candidate {
    std::string id;
    std::size_t cap = 1;
    std::size_t held = 0;
  };
  // Fills in `held` and sorts by load, the least first.
  asio::awaitable<Result<void>> by_load(std::vector<Candidate>& candidates);
  asio::awaitable<Result<bool>> try_take(const Candidate& candidate, std::string holder);
  std::unique_ptr<SandboxSeat> seat(std::string sandbox_id, std::string holder);

  asio::any_io_executor executor_;
  std::shared_ptr<store::Redis> redis_;
  std::shared_ptr<sandbox::ExecClient> exec_;
  Options options_;
};

}  // namespace roost::agent
