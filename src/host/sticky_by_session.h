// stickyBySession: a session's turns go to the worker process that had its last one, so that they find it warm there.
#pragma once

#include <vector>

#include "host/limits.h"
#include "host/routing_policy.h"

namespace roost::host {

class StickyBySession final : public RoutingPolicy {
 public:
  // Keeps that many pins; the least recently used goes first.
  explicit StickyBySession(std::uint32_t sessions = kAffinitySessions);

  std::optional<Choice> choose(std::span<const WorkerLoad> loads, const RouteRequest& request) const override;
  void assigned(const WorkerLoad& worker, const RouteRequest& request, Affinity affinity) override;

  std::uint32_t pins() const { return used_; }
  void check_integrity() const;

 private:
  static constexpr std::uint32_t kNone = ~0U;
  struct Pin {
    std::uint64_t session = 0;
    std::uint32_t serial = 0;     // of the worker process
    std::uint32_t chain = kNone;  // next pin of the same bucket
    std::uint32_t newer = kNone;
    std::uint32_t older = kNone;
  };
  std::uint32_t find(std::uint64_t session) const;
  std::uint32_t& bucket(std::uint64_t session) { return buckets_[session % buckets_.size()]; }
  void unlink(std::uint32_t pin);
  void push_newest(std::uint32_t pin);
  std::uint32_t take_pin();
  void leave_bucket(std::uint32_t pin);

  std::vector<Pin> pins_;               // all of them from the start: nothing is allocated later
  std::vector<std::uint32_t> buckets_;  // heads of chains
  std::uint32_t used_ = 0;
  std::uint32_t newest_ = kNone;
  std::uint32_t oldest_ = kNone;
};

}  // namespace roost::host
