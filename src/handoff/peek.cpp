#include "handoff/peek.h"

#include <algorithm>

namespace roost::handoff {
namespace {

// Where the head ends: behind the first empty line; npos while it has not come. A bare \n ends a line here, so that a
// client that writes them gets its 400 at once instead of after a time-out.
std::size_t end_of_head(std::string_view bytes) {
  for (std::size_t at = bytes.find('\n'); at != std::string_view::npos; at = bytes.find('\n', at + 1)) {
    const std::string_view rest = bytes.substr(at + 1);
    if (rest.starts_with("\n")) return at + 2;
    if (rest.starts_with("\r\n")) return at + 3;
  }
  return std::string_view::npos;
}

constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view take_line(std::string_view& text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

bool request_line_is_turn(std::string_view line) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || last == first || !line.substr(last + 1).starts_with("HTTP/1.")) return false;
  return is_turn(line.substr(0, first), line.substr(first + 1, last - first - 1));
}

}  // namespace

bool is_turn(std::string_view method, std::string_view target) {
  return method == "POST" && (target == "/turn" || target == "/v1/turn");
}

PeekedHead peek_head(std::string_view bytes) {
  PeekedHead out;
  const std::size_t end = end_of_head(bytes);
  if (end == std::string_view::npos) return out;
  out.complete = true;
  std::string_view head = bytes.substr(0, end);
  out.turn = request_line_is_turn(take_line(head));
  while (!head.empty()) {
    const std::string_view line = take_line(head);
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !same_name(line.substr(0, colon), kSessionHeader)) continue;
    out.session_id = trimmed(line.substr(colon + 1));
    if (!out.session_id.empty()) break;
  }
  return out;
}

}  // namespace roost::handoff
