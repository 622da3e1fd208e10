#include "net/sse.h"

#include <utility>

#include "core/limits.h"

namespace roost::net {
namespace {

// A line break inside a one-line field would end it early and start another.
void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ");
  for (const char c : value) out += c == '\n' || c == '\r' ? ' ' : c;
  out += '\n';
}

}  // namespace

std::string format_sse(std::string_view data, std::string_view event, std::string_view id) {
  std::string out;
  out.reserve(data.size() + event.size() + id.size() + 32);
  if (!event.empty()) append_field(out, "event", event);
  if (!id.empty()) append_field(out, "id", id);
  while (true) {
    // A bare CR or a CRLF ends a line too, so it also becomes a break of data lines.
    const std::size_t end = data.find_first_of("\r\n");
    out.append("data: ").append(data.substr(0, end)).append("\n");
    if (end == std::string_view::npos) break;
    data.remove_prefix(end + (data.substr(end, 2) == "\r\n" ? 2 : 1));
  }
  out += '\n';
  return out;
}

std::string format_sse_comment(std::string_view text) {
  std::string out = ": ";
  for (const char c : text) out += c == '\n' || c == '\r' ? ' ' : c;
  out += "\n\n";
  return out;
}

void SseParser::feed(std::string_view piece, std::vector<SseEvent>& out) {
  while (!piece.empty()) {
    if (last_was_cr_ && piece.front() == '\n') {  // second half of a CRLF
      last_was_cr_ = false;
      piece.remove_prefix(1);
      continue;
    }
    last_was_cr_ = false;
    const std::size_t end = piece.find_first_of("\r\n");
    add_to_line(piece.substr(0, end));
    if (end == std::string_view::npos) return;
    last_was_cr_ = piece[end] == '\r';
    piece.remove_prefix(end + 1);
    const std::string line = std::exchange(line_, {});
    take_line(line, out);
  }
}

void SseParser::add_to_line(std::string_view text) {
  if (line_.size() + pending_.data.size() + text.size() > limits::kSseEventBytes) {
    dropping_ = too_large_ = true;
    pending_ = {};
    // What is kept only has to tell an empty line from another.
    line_.assign(1, ':');
    return;
  }
  line_ += text;
}

void SseParser::take_line(std::string_view line, std::vector<SseEvent>& out) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (std::exchange(first_line_, false) && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());

  if (line.empty()) {
    if (has_data_ && !dropping_) out.push_back(std::move(pending_));
    pending_ = {};
    has_data_ = dropping_ = false;
    return;
  }
  if (dropping_) return;
  if (line.front() == ':') {
    ++comments_;
    return;
  }
  const std::size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);
  std::string_view value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "data") {
    if (has_data_) pending_.data += '\n';
    pending_.data += value;
    has_data_ = true;
  } else if (name == "event") {
    pending_.event = value;
  } else if (name == "id") {
    if (value.find('\0') == std::string_view::npos) pending_.id = value;
  }
}

}  // namespace roost::net
