// Bodies of the pool routes as checked values. Pure.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "api/generation_request.h"
#include "core/json.h"
#include "core/result.h"
#include "engine/commands.h"

namespace roost::api {

struct PromptText {
  std::string text;
};
struct FromSession {
  std::string session_id;
};
struct FromSlot {
  kv::SeqId slot;
};

// Where a pool's tokens come from. A text or tokens are the whole prefix, unless is_suffix.
using PoolOrigin = std::variant<kv::Tokens, PromptText, engine::ChatInput, FromSession, FromSlot>;

struct PoolRequest {
  PoolOrigin origin;
  bool is_suffix = false;                  // of a fork: only [D, L)
  std::optional<std::int32_t> branch_pos;  // of a fork
  engine::PoolOptions options;
  std::string cache_salt;
};

// POST /polykv/pools: exactly one of tokens, prompt, messages, from_session, from_slot.
Result<PoolRequest> parse_pool_create(const json::object& body, std::int32_t vocabulary_size);
// POST /polykv/pools/{id}/fork: one of those, or suffix_tokens or suffix.
Result<PoolRequest> parse_pool_fork(const json::object& body, std::int32_t vocabulary_size);

// The {id} of a path: a whole number of at least 0.
Result<kv::PoolId> parse_pool_id(std::string_view text);

}  // namespace roost::api
