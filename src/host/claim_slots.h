// Which claim words of the counter page are in use by hand-offs under way, and the tickets that make their reuse safe.
// Belongs to the supervisor's thread; allocates nothing after construction.
#pragma once

#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "core/check.h"

namespace roost::host {

class ClaimSlots {
 public:
  struct Ticket {
    std::uint32_t slot = 0;
    std::uint64_t number = 0;  // never given twice
  };

  explicit ClaimSlots(std::uint32_t slots) : free_(slots), total_(slots) {
    std::iota(free_.rbegin(), free_.rend(), 0U);
  }

  // Empty: that many hand-offs are under way.
  std::optional<Ticket> take() {
    if (free_.empty()) return std::nullopt;
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    return Ticket{slot, next_++};
  }
  void give_back(std::uint32_t slot) {
    ROOST_CHECK(free_.size() < total_);
    free_.push_back(slot);
  }
  std::size_t used() const { return total_ - free_.size(); }

 private:
  std::vector<std::uint32_t> free_;
  std::size_t total_;
  std::uint64_t next_ = 1;
};

}  // namespace roost::host
