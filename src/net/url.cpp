#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>

#include "net/http_client.h"

namespace roost::net {
namespace {

Error bad_url(std::string_view text, std::string_view why) {
  return {ErrorKind::invalid_request, "'" + std::string(text) + "' is not a usable URL: " + std::string(why), {}, {}};
}

}  // namespace

Result<Url> parse_url(std::string_view text) {
  const auto parsed = boost::urls::parse_uri(boost::core::string_view(text.data(), text.size()));
  if (!parsed) return bad_url(text, "write it as http://host:port");
  const boost::urls::url_view& view = *parsed;

  Url url;
  url.scheme = view.scheme();
  for (char& c : url.scheme) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  if (url.scheme != "http" && url.scheme != "https") return bad_url(text, "the scheme must be http or https");
  if (view.has_userinfo()) return bad_url(text, "a user or password in it is not supported");
  if (view.has_query() || view.has_fragment()) return bad_url(text, "it must have no '?' and no '#'");

  // An IPv6 literal comes as [::1]; connecting wants it without brackets.
  url.host = view.host_address();
  if (url.host.empty()) return bad_url(text, "the host is missing");
  url.port = url.scheme == "https" ? 443 : 80;
  if (view.has_port() && !view.port().empty()) {
    url.port = view.port_number();
    if (url.port == 0) return bad_url(text, "the port must be from 1 to 65535");
  }
  url.path = std::string(view.encoded_path());
  while (url.path.ends_with('/')) url.path.pop_back();
  return url;
}

}  // namespace roost::net
