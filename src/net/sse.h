// Server-sent events: writing and parsing. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace roost::net {

struct SseEvent {
  std::string event;  // empty = "message"
  std::string data;   // its data lines joined by '\n'
  std::string id;     // of this event; empty when it had none (the last id of earlier events is the reader's to keep)
  friend bool operator==(const SseEvent&, const SseEvent&) = default;
};

// "event: E\nid: I\ndata: line\n...\n\n". `data` may hold newlines; each becomes a data line.
std::string format_sse(std::string_view data, std::string_view event = {}, std::string_view id = {});
// ": text\n\n"
std::string format_sse_comment(std::string_view text);

// Feeds on pieces split anywhere, gives back complete events: those with at least one data line, ended by an empty
// line. Lines end with LF, CR or CRLF. Comments are dropped (but counted); `retry` and unknown fields are ignored. An
// event of more than limits::kSseEventBytes is dropped and makes too_large() true.
class SseParser {
 public:
  // Appends to `out`.
  void feed(std::string_view piece, std::vector<SseEvent>& out);
  std::size_t comments() const { return comments_; }
  bool too_large() const { return too_large_; }

 private:
  void add_to_line(std::string_view text);
  void take_line(std::string_view line, std::vector<SseEvent>& out);
  std::string line_;
  SseEvent pending_;
  bool has_data_ = false;
  bool last_was_cr_ = false;
  bool first_line_ = true;
  bool dropping_ = false;  // the event being read is too large
  bool too_large_ = false;
  std::size_t comments_ = 0;
};

}  // namespace roost::net
