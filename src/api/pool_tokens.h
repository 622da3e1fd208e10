// The tokens of a pool that is made from a text or a conversation.
#pragma once

#include "api/context.h"
#include "api/pool_request.h"

namespace roost::api {

// The source for the engine: tokens, or the session or slot to take them from.
Result<engine::PoolSource> pool_source(const ApiContext& context, const PoolRequest& request);

// What every conversation that begins with `chat` has in common: the token-exact common prefix of two renders that
// differ only in one more turn, without a generation prompt. (Templates may fold or refuse a lone system message, so
// the turn is there.)
Result<kv::Tokens> conversation_prefix(const ApiContext& context, const engine::ChatInput& chat);

}  // namespace roost::api
