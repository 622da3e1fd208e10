// ModelPort: decode of a batch. The real one wraps a llama_context; the fake hashes the visible tokens, so that two
// sequences with the same history must give the same token and a wrong share shows at once. Called by the engine thread
// only, except where noted.
#pragma once

#include <span>

#include "kv/types.h"

namespace roost::engine {

struct BatchToken {
  kv::Token token;
  kv::Pos pos;
  kv::SeqId seq;
  bool logits;  // are logits wanted after this token?
};

enum class DecodeStatus {
  ok,
  no_slot,  // no room in the cache; nothing of the batch is in it
  failed,   // the batch failed; its tokens may or may not be in the cache
};

class ModelPort {
 public:
  virtual ~ModelPort() = default;
  virtual DecodeStatus decode(std::span<const BatchToken> batch) = 0;
  // Ends a generation? Any thread.
  virtual bool is_end_of_generation(kv::Token token) const = 0;
  // Any thread.
  virtual std::int32_t vocabulary_size() const = 0;
  virtual std::int32_t training_length() const = 0;  // tokens
};

}  // namespace roost::engine
