// What supervisor and worker learn from the first bytes of a request without consuming them (MSG_PEEK): whether it is a
// turn, and the routing key. Pure.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/limits.h"

namespace roost::handoff {

inline constexpr std::size_t kPeekBytes = limits::kHttpHeadBytes;
// A request header that keys the routing; not a credential.
inline constexpr std::string_view kSessionHeader = "X-SH-Session-Id";

// A turn takes a place of S; nothing else does. The target matches exactly.
bool is_turn(std::string_view method, std::string_view target);

struct PeekedHead {
  bool complete = false;  // the blank line is there; the rest is meaningful only then
  bool turn = false;
  std::string_view session_id;  // trimmed; empty = absent. Points into the peeked bytes
};

// Never fails: a head that is not HTTP is complete at its blank line and no turn, and the worker's parser refuses it.
PeekedHead peek_head(std::string_view bytes);

}  // namespace roost::handoff
