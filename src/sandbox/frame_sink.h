// FrameSink: where a sandbox's commands send their frames. While no relay is attached frames are lost, which is what a
// relay expects: it has failed the calls.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "sandbox/wire.h"

namespace roost::sandbox {

class FrameSink {
 public:
  virtual ~FrameSink() = default;
  // Always takes the frame. Chunks are sent only after writable().
  virtual void send(wire::WorkerFrame frame) = 0;
  // Waits while the stream is behind: the reason why a command that writes faster than its reader is slowed down.
  virtual boost::asio::awaitable<void> writable() = 0;
};

}  // namespace roost::sandbox
