// Bytes to UTF-8 text, however they are split. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace roost {

// Gives back whole characters only. Bytes that can no longer become a character are U+FFFD, one for each maximal piece
// (as browsers do); an unfinished character at the end waits for more bytes, or for flush(). The output depends on the
// bytes alone, never on how they were split.
class Utf8Assembler {
 public:
  // What became complete with these bytes.
  std::string feed(std::string_view bytes);
  // The end of the text: an unfinished character becomes U+FFFD.
  std::string flush();

 private:
  void take(unsigned char byte, std::string& out);
  void start(unsigned char byte, std::string& out);

  std::string pending_;       // the bytes of an unfinished character
  int needed_ = 0;            // continuation bytes still missing
  unsigned char low_ = 0x80;  // range of the next continuation byte
  unsigned char high_ = 0xBF;
};

// The whole of `bytes` as valid UTF-8.
std::string to_valid_utf8(std::string_view bytes);

// The longest prefix of at most `limit` bytes that does not end inside a character. `text` is valid UTF-8.
std::string_view utf8_prefix(std::string_view text, std::size_t limit);

// The longest suffix of at most `limit` bytes that does not begin inside a character. `text` is valid UTF-8.
std::string_view utf8_suffix(std::string_view text, std::size_t limit);

}  // namespace roost
