#include "store/redis_url.h"

#include <fmt/format.h>

#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>
#include <charconv>

namespace roost::store {
namespace {

constexpr int kMaxDatabase = 16383;

Error bad_url(std::string_view why) {
  return {
      ErrorKind::bad_config,
      fmt::format("the Redis URL {}; write redis://[:password@]host[:port][/db] or unix:///path/to.sock[?db=n]", why),
      {},
      {}};
}

Result<int> parse_database(std::string_view text) {
  int n = -1;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (ec != std::errc{} || end != text.data() + text.size() || n < 0 || n > kMaxDatabase) {
    return bad_url("names a database that is not a whole number");
  }
  return n;
}

Result<RedisUrl> parse_unix(const boost::urls::url_view& url) {
  RedisUrl out;
  out.unix_path = url.path();
  if (url.has_authority() && !url.encoded_host().empty()) return bad_url("has a host before the socket's path");
  if (out.unix_path.size() < 2 || out.unix_path.front() != '/') return bad_url("has no absolute socket path");
  for (const auto& parameter : url.params()) {
    if (parameter.key != "db") return bad_url("has a parameter other than db");
    ROOST_TRY(database, parse_database(parameter.value));
    out.database = database;
  }
  return out;
}

Result<RedisUrl> parse_tcp(const boost::urls::url_view& url) {
  RedisUrl out;
  // The literal's brackets are the URL's, not the address's.
  out.host = url.host_type() == boost::urls::host_type::ipv6 ? url.host_address() : url.host();
  if (out.host.empty()) return bad_url("names no host");
  if (url.has_port()) {
    const std::string_view text = url.port();
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), out.port);
    if (ec != std::errc{} || end != text.data() + text.size() || out.port == 0) {
      return bad_url("has a port that is not from 1 to 65535");
    }
  }
  out.user = url.user();
  out.password = url.password();
  const std::string path = url.path();
  if (path.size() > 1) {
    ROOST_TRY(database, parse_database(std::string_view(path).substr(1)));
    out.database = database;
  }
  if (url.has_query()) return bad_url("has parameters");
  return out;
}

}  // namespace

std::string RedisUrl::printable() const {
  if (!unix_path.empty()) return fmt::format("unix://{}?db={}", unix_path, database);
  return fmt::format("redis://{}:{}/{}", host, port, database);
}

Result<RedisUrl> parse_redis_url(std::string_view text) {
  const auto parsed = boost::urls::parse_uri(text);
  if (!parsed) return bad_url("is not a URL");
  if (parsed->scheme() == "unix") return parse_unix(*parsed);
  if (parsed->scheme() == "redis") return parse_tcp(*parsed);
  return bad_url("has a scheme other than redis and unix");
}

}  // namespace roost::store
