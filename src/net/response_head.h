// The head of an answer as bytes. Internal to net/.
#pragma once

#include <cstdint>
#include <string>

#include "net/http.h"

namespace roost::net {

struct Framing {
  enum class Body { none, length, chunked, until_close };
  Body body = Body::none;
  std::uint64_t length = 0;  // for Body::length
  // Value of the Connection header; empty = no such line.
  std::string_view connection;
};

// Content-Length, Transfer-Encoding and Connection come from `framing`; such lines in `headers` are left out. Line
// breaks in names or values become spaces, so that no value can start another header.
std::string render_response_head(int status, const Headers& headers, const Framing& framing);

// "Name: value\r\n", cleaned the same way.
void append_header(std::string& out, std::string_view name, std::string_view value);

}  // namespace roost::net
