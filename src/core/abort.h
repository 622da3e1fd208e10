// AbortSource: tells the pieces of one request's work that it is no longer wanted (client gone, cancelled, shutting
// down). Not a thread-safe event bus: an AbortSource lives on one executor (or strand), and its callbacks run inside
// request().
#pragma once

#include <functional>
#include <list>
#include <string>
#include <utility>

namespace roost {

class AbortSource {
 public:
  using Callback = std::function<void()>;

  // Unsubscribes in its destructor. Must not outlive the source.
  class Subscription {
   public:
    Subscription() = default;
    Subscription(Subscription&& other) noexcept : source_(std::exchange(other.source_, nullptr)), at_(other.at_) {}
    Subscription& operator=(Subscription&& other) noexcept {
      if (this != &other) {
        reset();
        source_ = std::exchange(other.source_, nullptr);
        at_ = other.at_;
      }
      return *this;
    }
    ~Subscription() { reset(); }
    void reset() {
      if (source_ != nullptr) std::exchange(source_, nullptr)->callbacks_.erase(at_);
    }

   private:
    friend class AbortSource;
    Subscription(AbortSource* source, std::list<Callback>::iterator at) : source_(source), at_(at) {}
    AbortSource* source_ = nullptr;
    std::list<Callback>::iterator at_{};
  };

  AbortSource() = default;
  AbortSource(const AbortSource&) = delete;
  AbortSource& operator=(const AbortSource&) = delete;

  bool requested() const { return requested_; }
  // Why: "client_gone", "cancelled", "draining", ...; empty while not requested.
  const std::string& reason() const { return reason_; }

  // Runs `callback` once when the abort is requested; at once if it was already.
  [[nodiscard]] Subscription subscribe(Callback callback) {
    if (requested_) {
      callback();
      return {};
    }
    callbacks_.push_back(std::move(callback));
    return {this, std::prev(callbacks_.end())};
  }

  // The first request counts; later ones change nothing. Every callback is called once; a callback may drop any
  // subscription.
  void request(std::string reason) {
    if (requested_) return;
    requested_ = true;
    reason_ = std::move(reason);
    for (auto it = callbacks_.begin(); it != callbacks_.end();) {
      // A callback may erase its own node (its Subscription dies in it), so it runs from a copy, and the walk restarts.
      Callback callback = std::exchange(*it, nullptr);
      if (callback) {
        callback();
        it = callbacks_.begin();
      } else {
        ++it;
      }
    }
  }

 private:
  std::list<Callback> callbacks_;
  bool requested_ = false;
  std::string reason_;
};

}  // namespace roost
