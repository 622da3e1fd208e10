#include "net/response_head.h"

namespace roost::net {
namespace {

bool is_framing(std::string_view name) {
  return equal_ignoring_case(name, "Content-Length") || equal_ignoring_case(name, "Transfer-Encoding") ||
         equal_ignoring_case(name, "Connection");
}

void append_clean(std::string& out, std::string_view text) {
  for (const char c : text) out += c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
}

}  // namespace

void append_header(std::string& out, std::string_view name, std::string_view value) {
  append_clean(out, name);
  out += ": ";
  append_clean(out, value);
  out += "\r\n";
}

std::string render_response_head(int status, const Headers& headers, const Framing& framing) {
  std::string out;
  out.reserve(256);
  out.append("HTTP/1.1 ").append(std::to_string(status)).append(" ").append(reason_phrase(status)).append("\r\n");
  for (const auto& [name, value] : headers) {
    if (!is_framing(name)) append_header(out, name, value);
  }
  if (framing.body == Framing::Body::length) append_header(out, "Content-Length", std::to_string(framing.length));
  if (framing.body == Framing::Body::chunked) append_header(out, "Transfer-Encoding", "chunked");
  if (!framing.connection.empty()) append_header(out, "Connection", framing.connection);
  out += "\r\n";
  return out;
}

}  // namespace roost::net
