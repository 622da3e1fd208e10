// Server-sent events: writing and parsing. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace roost::net {

struct SseEvent {
  std::string event;  // empty = "message"
  std::string data;
  std::string id;
  friend bool operator==(const SseEvent&, const SseEvent&) = default;
};

// "event: E\nid: I\ndata: line\n...\n\n". `data` may hold newlines; each becomes a data line.
std::string format_sse(std::string_view data, std::string_view event = {}, std::string_view id = {});
// ": text\n\n"
std::string format_sse_comment(std::string_view text);

// Feeds on pieces split anywhere, gives back complete events. Comments are dropped (but counted).
class SseParser {
 public:
  // Appends to `out`.
  void feed(std::string_view piece, std::vector<SseEvent>& out);
  std::size_t comments() const { return comments_; }

 private:
  void take_line(std::string_view line, std::vector<SseEvent>& out);
  std::string line_;
  SseEvent pending_;
  bool has_data_ = false;
  bool last_was_cr_ = false;
  std::size_t comments_ = 0;
};

}  // namespace roost::net
