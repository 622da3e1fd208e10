// Gate: lets work in until it is closed, and knows when the last piece of work has left. The centre of a clean drain.
// Not thread-safe: one gate belongs to one executor.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <utility>

#include "core/check.h"

namespace roost {

class Gate {
 public:
  // One piece of work inside the gate; leaves in its destructor. Must not outlive the gate.
  class Hold {
   public:
    Hold(Hold&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    Hold& operator=(Hold&&) = delete;
    ~Hold() {
      if (gate_ != nullptr) gate_->leave();
    }

   private:
    friend class Gate;
    explicit Hold(Gate* gate) : gate_(gate) {}
    Gate* gate_;
  };

  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { ROOST_CHECK(count_ == 0, "a gate dies with work inside"); }

  // Empty once the gate is closed.
  [[nodiscard]] std::optional<Hold> enter() {
    if (closed_) return std::nullopt;
    ++count_;
    return Hold(this);
  }

  // No one enters any more; `on_empty` runs once, when the last has left (now, if nobody is in).
  void close(std::function<void()> on_empty) {
    ROOST_CHECK(!closed_, "a gate closes once");
    closed_ = true;
    on_empty_ = std::move(on_empty);
    if (count_ == 0) notify();
  }

  bool closed() const { return closed_; }
  std::size_t count() const { return count_; }

 private:
  void leave() {
    ROOST_CHECK(count_ > 0);
    if (--count_ == 0 && closed_) notify();
  }
  void notify() {
    if (auto f = std::exchange(on_empty_, nullptr)) f();
  }

  std::size_t count_ = 0;
  bool closed_ = false;
  std::function<void()> on_empty_;
};

}  // namespace roost
