#include "core/json.h"

#include <fmt/format.h>

#include "core/limits.h"

namespace roost {
namespace {

std::string_view type_name(const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return "a boolean";
    case json::kind::int64:
    case json::kind::uint64:
    case json::kind::double_:
      return "a number";
    case json::kind::string:
      return "a string";
    case json::kind::array:
      return "an array";
    case json::kind::object:
      return "an object";
  }
  return "unknown";
}

Error wrong_type(const std::string& field, std::string_view wanted, const json::value& got) {
  return {ErrorKind::invalid_request, fmt::format("'{}' must be {}, not {}", field, wanted, type_name(got)), {}, {}};
}

}  // namespace

Result<json::value> parse_json(std::string_view text) {
  json::parse_options options;
  options.max_depth = limits::kJsonDepth;
  json::stream_parser parser(json::storage_ptr{}, options);
  boost::system::error_code ec;
  const std::size_t used = parser.write_some(text.data(), text.size(), ec);
  if (!ec) parser.finish(ec);
  if (!ec && used < text.size()) {
    if (text.find_first_not_of(" \t\r\n", used) != std::string_view::npos) ec = json::error::extra_data;
  }
  if (ec) {
    return {ErrorKind::invalid_json, fmt::format("the body is not valid JSON: {} at byte {}", ec.message(), used)};
  }
  return parser.release();
}

Result<json::object> parse_json_object(std::string_view text) {
  ROOST_TRY(value, parse_json(text));
  if (!value.is_object()) {
    return {ErrorKind::invalid_json, fmt::format("the body must be a JSON object, not {}", type_name(value))};
  }
  return std::move(value.as_object());
}

std::string ObjectReader::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

const json::value* ObjectReader::find(std::string_view name) const {
  const json::value* value = object_.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

Result<std::optional<std::int64_t>> ObjectReader::integer(std::string_view name, std::int64_t min,
                                                          std::int64_t max) const {
  const json::value* value = find(name);
  if (value == nullptr) return std::optional<std::int64_t>{};
  boost::system::error_code ec;
  std::int64_t n = 0;
  if (value->is_int64()) {
    n = value->get_int64();
  } else if (value->is_uint64()) {
    ec = json::error::not_exact;  // above the range of int64
  } else if (value->is_double() && value->get_double() >= -9.0e15 && value->get_double() <= 9.0e15) {
    n = static_cast<std::int64_t>(value->get_double());
    if (static_cast<double>(n) != value->get_double()) return wrong_type(path_of(name), "an integer", *value);
  } else if (value->is_double()) {
    ec = json::error::not_exact;
  } else {
    return wrong_type(path_of(name), "an integer", *value);
  }
  if (ec || n < min || n > max) {
    return {ErrorKind::invalid_request,
            fmt::format("'{}' is {}, must be from {} to {}", path_of(name), json::serialize(*value), min, max)};
  }
  return std::optional(n);
}

Result<std::optional<double>> ObjectReader::number(std::string_view name, double min, double max) const {
  const json::value* value = find(name);
  if (value == nullptr) return std::optional<double>{};
  if (!value->is_number()) return wrong_type(path_of(name), "a number", *value);
  const double n = value->to_number<double>();
  if (!(n >= min && n <= max)) {
    return {ErrorKind::invalid_request,
            fmt::format("'{}' is {}, must be from {} to {}", path_of(name), json::serialize(*value), min, max)};
  }
  return std::optional(n);
}

Result<std::optional<bool>> ObjectReader::boolean(std::string_view name) const {
  const json::value* value = find(name);
  if (value == nullptr) return std::optional<bool>{};
  if (!value->is_bool()) return wrong_type(path_of(name), "a boolean", *value);
  return std::optional(value->get_bool());
}

Result<std::optional<std::string>> ObjectReader::string(std::string_view name) const {
  const json::value* value = find(name);
  if (value == nullptr) return std::optional<std::string>{};
  if (!value->is_string()) return wrong_type(path_of(name), "a string", *value);
  return std::optional<std::string>(std::in_place, value->get_string());
}

Result<const json::array*> ObjectReader::array(std::string_view name) const {
  const json::value* value = find(name);
  if (value == nullptr) return static_cast<const json::array*>(nullptr);
  if (!value->is_array()) return wrong_type(path_of(name), "an array", *value);
  return &value->get_array();
}

Result<const json::object*> ObjectReader::object(std::string_view name) const {
  const json::value* value = find(name);
  if (value == nullptr) return static_cast<const json::object*>(nullptr);
  if (!value->is_object()) return wrong_type(path_of(name), "an object", *value);
  return &value->get_object();
}

json::object to_json(const Fields& fields) {
  json::object object;
  for (const Field& f : fields) {
    std::visit([&](const auto& v) { object[f.name] = json::value_from(v); }, f.value);
  }
  return object;
}

}  // namespace roost
