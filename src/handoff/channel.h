// One end of the channel between the supervisor and one worker: a SOCK_SEQPACKET pair that carries Messages, each with
// at most one socket beside it (SCM_RIGHTS). Never blocks.
//
// Threads: one end belongs to one thread.
#pragma once

#include <optional>
#include <utility>

#include "core/result.h"
#include "core/unique_fd.h"
#include "handoff/message.h"

namespace roost::handoff {

enum class SendStatus {
  sent,
  full,    // try again when the descriptor is writable
  closed,  // the other side is gone
};

struct Received {
  enum class Status {
    message,
    ignored,  // unknown or malformed, or it carried more sockets than one (all closed): log it, go on
    empty,    // nothing there; wait until readable
    closed,   // the other side is gone
  };
  Status status = Status::empty;
  std::optional<Message> message;  // for Status::message
  UniqueFd socket;                 // the one that came with it, close-on-exec; may be missing whatever the kind
  bool socket_lost = false;        // one was sent and could not be installed here (out of descriptors)
};

class Channel {
 public:
  // The two ends, close-on-exec and non-blocking.
  static Result<std::pair<UniqueFd, UniqueFd>> make();

  Channel() = default;
  // Takes over an inherited end; bad_config when the descriptor is not such a socket.
  static Result<Channel> adopt(UniqueFd fd);
  explicit Channel(UniqueFd fd) : fd_(std::move(fd)) {}

  // `socket` = -1: none. The kernel takes its own reference; the caller keeps the descriptor.
  SendStatus send(const Message& message, int socket = -1);
  Received receive();

  int fd() const { return fd_.get(); }
  bool is_open() const { return static_cast<bool>(fd_); }
  void close() { fd_.reset(); }

 private:
  UniqueFd fd_;
};

}  // namespace roost::handoff
