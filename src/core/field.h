// A named value: the extra data of an error or a log line.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace roost {

struct Field {
  using Value = std::variant<bool, std::int64_t, double, std::string>;

  std::string name;
  Value value;

  template <class T>
  Field(std::string field_name, T&& v) : name(std::move(field_name)), value(to_value(std::forward<T>(v))) {}

  friend bool operator==(const Field&, const Field&) = default;

 private:
  template <class T>
  static Value to_value(T&& v) {
    using U = std::remove_cvref_t<T>;
    if constexpr (std::same_as<U, bool>) {
      return v;
    } else if constexpr (std::integral<U>) {
      return static_cast<std::int64_t>(v);
    } else if constexpr (std::floating_point<U>) {
      return static_cast<double>(v);
    } else {
      return std::string(std::forward<T>(v));
    }
  }
};

using Fields = std::vector<Field>;

}  // namespace roost
