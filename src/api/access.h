// Who may call: the API key.
#pragma once

#include <string_view>

#include "core/result.h"
#include "net/http.h"

namespace roost::api {

// Equal, in a time that depends on the lengths alone.
bool equal_in_constant_time(std::string_view a, std::string_view b);

// `key` empty: everyone may. /health is open to all. The key comes as "Authorization: Bearer KEY" or "X-Api-Key: KEY".
// Error unauthorized.
Result<void> check_access(const net::Request& head, std::string_view key);

}  // namespace roost::api
