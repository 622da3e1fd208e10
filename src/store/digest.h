// Digests as lower-case hex: SHA-256 for log entries, SHA-1 because EVALSHA names scripts by it (not for security).
#pragma once

#include <string>
#include <string_view>

namespace roost::store {

std::string sha1_hex(std::string_view data);
std::string sha256_hex(std::string_view data);

}  // namespace roost::store
