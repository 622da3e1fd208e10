#include "net/http.h"

#include <algorithm>
#include <array>

namespace roost::net {
namespace {

const std::string* find_value(const std::vector<std::pair<std::string, std::string>>& list, std::string_view name) {
  for (const auto& [key, value] : list) {
    if (key == name) return &value;
  }
  return nullptr;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool unreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

// "http://host:80/x?y" -> "/x?y"; other targets stay.
std::string_view strip_origin(std::string_view target) {
  for (std::string_view scheme : {"http://", "https://"}) {
    if (!equal_ignoring_case(target.substr(0, scheme.size()), scheme)) continue;
    const std::size_t end = target.find_first_of("/?", scheme.size());
    return end == std::string_view::npos ? std::string_view("/") : target.substr(end);
  }
  return target;
}

struct Reason {
  int status;
  std::string_view phrase;
};
constexpr std::array kReasons{
    Reason{100, "Continue"},
    Reason{101, "Switching Protocols"},
    Reason{200, "OK"},
    Reason{201, "Created"},
    Reason{202, "Accepted"},
    Reason{204, "No Content"},
    Reason{206, "Partial Content"},
    Reason{301, "Moved Permanently"},
    Reason{302, "Found"},
    Reason{303, "See Other"},
    Reason{304, "Not Modified"},
    Reason{307, "Temporary Redirect"},
    Reason{308, "Permanent Redirect"},
    Reason{400, "Bad Request"},
    Reason{401, "Unauthorized"},
    Reason{403, "Forbidden"},
    Reason{404, "Not Found"},
    Reason{405, "Method Not Allowed"},
    Reason{406, "Not Acceptable"},
    Reason{408, "Request Timeout"},
    Reason{409, "Conflict"},
    Reason{410, "Gone"},
    Reason{411, "Length Required"},
    Reason{412, "Precondition Failed"},
    Reason{413, "Payload Too Large"},
    Reason{414, "URI Too Long"},
    Reason{415, "Unsupported Media Type"},
    Reason{417, "Expectation Failed"},
    Reason{422, "Unprocessable Entity"},
    Reason{425, "Too Early"},
    Reason{426, "Upgrade Required"},
    Reason{428, "Precondition Required"},
    Reason{429, "Too Many Requests"},
    Reason{431, "Request Header Fields Too Large"},
    Reason{499, "Client Closed Request"},
    Reason{500, "Internal Server Error"},
    Reason{501, "Not Implemented"},
    Reason{502, "Bad Gateway"},
    Reason{503, "Service Unavailable"},
    Reason{504, "Gateway Timeout"},
    Reason{505, "HTTP Version Not Supported"},
};

}  // namespace

const std::string* Request::query_value(std::string_view name) const { return find_value(query, name); }

std::string_view Request::param(std::string_view name) const {
  const std::string* value = find_value(params, name);
  return value == nullptr ? std::string_view() : std::string_view(*value);
}

Response Response::json(int status, const json::value& body) {
  return {status, {{"Content-Type", "application/json"}}, roost::json::serialize(body)};
}

Response Response::text(int status, std::string body, std::string content_type) {
  return {status, {{"Content-Type", std::move(content_type)}}, std::move(body)};
}

Result<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '+' && plus_is_space) {
      out += ' ';
    } else if (c != '%') {
      out += c;
    } else {
      const int high = text.size() - i > 2 ? hex_digit(text[i + 1]) : -1;
      const int low = text.size() - i > 2 ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0) {
        return {ErrorKind::invalid_request, "the URL has a '%' that is not followed by two hex digits"};
      }
      if (high == 0 && low == 0) return {ErrorKind::invalid_request, "the URL must not hold a NUL byte (%00)"};
      out += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return out;
}

std::string percent_encode(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (unreserved(c)) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

Result<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> query;
  while (!text.empty()) {
    const std::string_view piece = text.substr(0, text.find('&'));
    text.remove_prefix(std::min(text.size(), piece.size() + 1));
    if (piece.empty()) continue;
    const std::size_t equals = piece.find('=');
    const std::string_view raw_value = equals == std::string_view::npos ? std::string_view() : piece.substr(equals + 1);
    ROOST_TRY(name, percent_decode(piece.substr(0, equals), true));
    ROOST_TRY(value, percent_decode(raw_value, true));
    query.emplace_back(std::move(name), std::move(value));
  }
  return query;
}

Result<void> set_target(Request& request, std::string target) {
  std::string_view rest = strip_origin(target);
  rest = rest.substr(0, rest.find('#'));
  const std::size_t mark = rest.find('?');
  std::string_view raw_path = rest.substr(0, mark);
  if (raw_path.empty() && mark == 0) raw_path = "/";
  if (raw_path != "*" && !raw_path.starts_with('/')) {
    return {ErrorKind::invalid_request, "the request target must be a path that begins with '/'"};
  }
  ROOST_TRY(path, percent_decode(raw_path));
  if (mark != std::string_view::npos) {
    ROOST_TRY(query, parse_query(rest.substr(mark + 1)));
    request.query = std::move(query);
  } else {
    request.query.clear();
  }
  request.path = std::move(path);
  request.target = std::move(target);
  return {};
}

std::string_view reason_phrase(int status) {
  for (const Reason& reason : kReasons) {
    if (reason.status == status) return reason.phrase;
  }
  return {};
}

}  // namespace roost::net
