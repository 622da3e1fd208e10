// Identifiers: random ones, and the rule for those that clients choose.
#pragma once

#include <string>
#include <string_view>

namespace roost {

// `bytes` random bytes from the kernel as lower-case hex. Unguessable. Thread-safe.
std::string random_hex(std::size_t bytes);

inline constexpr std::size_t kSessionIdMax = 128;

// A session id that may stand in a URL: 1 to 128 of letters, digits, `. _ ~ -`.
bool is_plain_session_id(std::string_view id);

}  // namespace roost
