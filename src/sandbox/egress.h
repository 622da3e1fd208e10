// Egress: the outgoing queue of one gRPC stream, which takes one write at a time. Bounded in bytes for what may be
// refused; terminal frames are always taken. Used from one executor.
#pragma once

#include <cstddef>
#include <deque>
#include <utility>

namespace roost::sandbox {

template <class Frame>
class Egress {
 public:
  explicit Egress(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  // False when the queue is full: the frame was not taken.
  bool offer(Frame frame) {
    const std::size_t size = frame.ByteSizeLong();
    if (bytes_ + size > max_bytes_) return false;
    bytes_ += size;
    frames_.emplace_back(std::move(frame), size);
    return true;
  }
  // For frames that must not be lost: the end of a call, an abort.
  void force(Frame frame) {
    const std::size_t size = frame.ByteSizeLong();
    bytes_ += size;
    frames_.emplace_back(std::move(frame), size);
  }

  // The next frame to write, or nullptr: nothing to write, or a write is in flight. It stays valid until written().
  const Frame* next() {
    if (writing_ || frames_.empty()) return nullptr;
    writing_ = true;
    return &frames_.front().first;
  }
  void written() {
    bytes_ -= frames_.front().second;
    frames_.pop_front();
    writing_ = false;
  }

  bool writing() const { return writing_; }
  bool empty() const { return frames_.empty(); }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  bool writing_ = false;
  std::deque<std::pair<Frame, std::size_t>> frames_;
};

}  // namespace roost::sandbox
