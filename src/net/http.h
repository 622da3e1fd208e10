// HTTP messages as plain values, shared by server and client.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json.h"
#include "core/result.h"

namespace roost::net {

// Header lines in order; names compare without case.
class Headers {
 public:
  Headers() = default;
  Headers(std::initializer_list<std::pair<std::string, std::string>> lines) : lines_(lines) {}

  // The first value of that name; nullptr when absent.
  const std::string* find(std::string_view name) const;
  // The same, empty when absent.
  std::string_view get(std::string_view name) const;
  void add(std::string name, std::string value) { lines_.emplace_back(std::move(name), std::move(value)); }
  // Replaces all lines of that name by one.
  void set(std::string_view name, std::string value);

  auto begin() const { return lines_.begin(); }
  auto end() const { return lines_.end(); }
  std::size_t size() const { return lines_.size(); }

 private:
  std::vector<std::pair<std::string, std::string>> lines_;
};

bool equal_ignoring_case(std::string_view a, std::string_view b);

struct Request {
  std::string method;                                       // "GET"
  std::string target;                                       // as sent: "/polykv/pools/3?tokens=1"
  std::string path;                                         // decoded, without the query: "/polykv/pools/3"
  std::vector<std::pair<std::string, std::string>> query;   // decoded, in order
  std::vector<std::pair<std::string, std::string>> params;  // what the route's {names} matched
  Headers headers;
  std::string body;
  bool keep_alive = true;

  // The first query parameter / route parameter of that name; nullptr when absent.
  const std::string* query_value(std::string_view name) const;
  std::string_view param(std::string_view name) const;
};

// Not an aggregate on purpose: g++ 12 destroys an aggregate temporary twice when it is an argument inside a co_await.
struct Response {
  Response() = default;
  Response(int code, Headers lines, std::string content)
      : status(code), headers(std::move(lines)), body(std::move(content)) {}

  int status = 200;
  Headers headers;
  std::string body;

  static Response json(int status, const json::value& body);
  static Response text(int status, std::string body, std::string content_type = "text/plain; charset=utf-8");
};

// %41 -> 'A'; with plus_is_space also '+' -> ' '. Error invalid_request: an escape that is not two hex digits, or %00.
Result<std::string> percent_decode(std::string_view text, bool plus_is_space = false);
// Everything but letters, digits and -._~ as %XX; for a path segment or a query value.
std::string percent_encode(std::string_view text);
// "a=1&b=x+y" -> {a,1}, {b,"x y"}; a name without '=' has an empty value, empty pieces are dropped.
Result<std::vector<std::pair<std::string, std::string>>> parse_query(std::string_view text);
// Fills target, path and query from a request target: "/path?query", "http://host/path?query" or "*".
Result<void> set_target(Request& request, std::string target);

// "Not Found" for 404; "" for an unknown status.
std::string_view reason_phrase(int status);

}  // namespace roost::net
