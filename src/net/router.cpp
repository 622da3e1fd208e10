#include <algorithm>

#include "core/check.h"
#include "net/http_server.h"

namespace roost::net {
namespace {

// "/a/b" -> {"a","b"}; "/a/" -> {"a",""}: a trailing slash is another path.
std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> segments;
  if (path.starts_with('/')) path.remove_prefix(1);
  while (true) {
    const std::size_t slash = path.find('/');
    segments.emplace_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return segments;
    path.remove_prefix(slash + 1);
  }
}

bool is_name(std::string_view segment) { return segment.size() > 2 && segment.front() == '{' && segment.back() == '}'; }

// {name} matches any one segment that is not empty.
bool matches(const std::vector<std::string>& pattern, const std::vector<std::string>& path) {
  return std::ranges::equal(pattern, path, [](const std::string& want, const std::string& have) {
    return is_name(want) ? !have.empty() : want == have;
  });
}

std::vector<std::pair<std::string, std::string>> bind(const std::vector<std::string>& pattern,
                                                      const std::vector<std::string>& path) {
  std::vector<std::pair<std::string, std::string>> params;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (is_name(pattern[i])) params.emplace_back(pattern[i].substr(1, pattern[i].size() - 2), path[i]);
  }
  return params;
}

void add_method(std::string& allow, std::string_view method) {
  if (!allow.empty()) allow += ", ";
  allow += method;
}

}  // namespace

void Router::add(std::string_view method, std::string_view pattern, Handler handler) {
  ROOST_CHECK(pattern.starts_with('/'), "a route begins with '/'");
  ROOST_CHECK(handler != nullptr, "a route has a handler");
  Route route{std::string(method), split_path(pattern), std::move(handler)};
  // Routes without names come first, so that the first match is the right one.
  auto at = routes_.end();
  if (std::ranges::none_of(route.segments, is_name)) {
    at = std::ranges::find_if(routes_, [](const Route& r) { return std::ranges::any_of(r.segments, is_name); });
  }
  routes_.insert(at, std::move(route));
}

Router::Match Router::match(std::string_view method, std::string_view path) const {
  const std::vector<std::string> segments = split_path(path);
  Match match;
  const Route* found = nullptr;
  const Route* get = nullptr;
  std::vector<std::string_view> methods;
  for (const Route& route : routes_) {
    if (!matches(route.segments, segments)) continue;
    if (found == nullptr && route.method == method) found = &route;
    if (get == nullptr && route.method == "GET") get = &route;
    if (std::ranges::find(methods, route.method) == methods.end()) methods.push_back(route.method);
  }
  if (found == nullptr && method == "HEAD") found = get;
  if (found != nullptr) {
    match.handler = &found->handler;
    match.params = bind(found->segments, segments);
    return match;
  }
  if (methods.empty()) {
    match.error = {ErrorKind::not_found, "there is no route " + std::string(path), {}, {}};
    return match;
  }
  for (const std::string_view m : methods) add_method(match.allow, m);
  if (get != nullptr && std::ranges::find(methods, "HEAD") == methods.end()) add_method(match.allow, "HEAD");
  match.error = {ErrorKind::method_not_allowed,
                 std::string(path) + " does not answer " + std::string(method) + "; allowed: " + match.allow,
                 {},
                 {}};
  return match;
}

}  // namespace roost::net
