// UTF-8 at the edges: a tool's output is bytes, JSON and SSE want valid text.
#pragma once

#include <string>
#include <string_view>

namespace roost::agent {

// `bytes` with every invalid sequence replaced by U+FFFD.
std::string valid_utf8(std::string_view bytes);

// The longest prefix of at most `limit` bytes that does not end inside a character. `text` is valid UTF-8.
std::string_view utf8_prefix(std::string_view text, std::size_t limit);

// The longest suffix of at most `limit` bytes that does not begin inside a character.
std::string_view utf8_suffix(std::string_view text, std::size_t limit);

}  // namespace roost::agent
