#include <algorithm>

#include "net/http.h"

namespace roost::net {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

const std::string* Headers::find(std::string_view name) const {
  for (const auto& [line_name, value] : lines_) {
    if (equal_ignoring_case(line_name, name)) return &value;
  }
  return nullptr;
}

std::string_view Headers::get(std::string_view name) const {
  const std::string* value = find(name);
  return value == nullptr ? std::string_view() : std::string_view(*value);
}

void Headers::set(std::string_view name, std::string value) {
  std::erase_if(lines_, [&](const auto& line) { return equal_ignoring_case(line.first, name); });
  lines_.emplace_back(std::string(name), std::move(value));
}

}  // namespace roost::net
