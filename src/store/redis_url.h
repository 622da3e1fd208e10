// A Redis address as people write it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.h"

namespace roost::store {

struct RedisUrl {
  std::string unix_path;  // empty = TCP
  std::string host;
  std::uint16_t port = 6379;
  std::string user;      // empty = the default user
  std::string password;  // empty = no AUTH
  int database = 0;

  // Without the password; for messages.
  std::string printable() const;
};

// "redis://[[user]:password@]host[:port][/db]" or "unix:///path/to.sock[?db=n]"; anything else is Error bad_config,
// which never repeats the text (it may hold a password).
Result<RedisUrl> parse_redis_url(std::string_view text);

}  // namespace roost::store
