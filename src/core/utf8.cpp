#include "core/utf8.h"

namespace roost {
namespace {

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

}  // namespace

std::string Utf8Assembler::feed(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() + pending_.size());
  for (const char c : bytes) take(static_cast<unsigned char>(c), out);
  return out;
}

std::string Utf8Assembler::flush() {
  if (pending_.empty()) return {};
  pending_.clear();
  needed_ = 0;
  return std::string(kReplacement);
}

void Utf8Assembler::take(unsigned char byte, std::string& out) {
  if (needed_ == 0) {
    start(byte, out);
    return;
  }
  if (byte < low_ || byte > high_) {
    // The character broke off; this byte may begin another.
    out += kReplacement;
    pending_.clear();
    needed_ = 0;
    start(byte, out);
    return;
  }
  pending_.push_back(static_cast<char>(byte));
  low_ = 0x80;
  high_ = 0xBF;
  if (--needed_ == 0) {
    out += pending_;
    pending_.clear();
  }
}

// The ranges of the second byte exclude overlong forms, surrogates and what lies above U+10FFFF (Unicode, table 3-7).
void Utf8Assembler::start(unsigned char byte, std::string& out) {
  if (byte < 0x80) {
    out.push_back(static_cast<char>(byte));
    return;
  }
  if (byte < 0xC2 || byte > 0xF4) {
    out += kReplacement;
    return;
  }
  needed_ = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
  low_ = byte == 0xE0 ? 0xA0 : byte == 0xF0 ? 0x90 : 0x80;
  high_ = byte == 0xED ? 0x9F : byte == 0xF4 ? 0x8F : 0xBF;
  pending_.push_back(static_cast<char>(byte));
}

std::string to_valid_utf8(std::string_view bytes) {
  Utf8Assembler assembler;
  std::string out = assembler.feed(bytes);
  return out += assembler.flush();
}

std::string_view utf8_prefix(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  std::size_t end = limit;
  while (end > 0 && continues(text[end])) --end;
  return text.substr(0, end);
}

std::string_view utf8_suffix(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return text;
  std::size_t begin = text.size() - limit;
  while (begin < text.size() && continues(text[begin])) ++begin;
  return text.substr(begin);
}

}  // namespace roost
