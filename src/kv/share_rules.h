// Which part of a sequence may be taken over by another, as page "KV pools: layouts and models" rules. Pure.
#pragma once

#include <string_view>

#include "kv/kv_port.h"

namespace roost::kv {

struct ShareQuestion {
  Pos wanted = 0;             // tokens in common
  Pos source_length = 0;      // resident tokens of the source
  Pos source_pos_min = 0;     // KvPort::pos_min of the source
  bool source_moves = false;  // the source is being computed right now (a recurrent state would be another one soon)
};

struct ShareAnswer {
  Pos length = 0;           // tokens that may be taken: `wanted` or 0
  std::string_view reason;  // why none, else empty
};

ShareAnswer may_share(const KvTraits& traits, const ShareQuestion& question);

}  // namespace roost::kv
