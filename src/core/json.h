// JSON at the doors: parsing with bounds, and reading typed members with an error that names the field and its range.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"

namespace roost {

namespace json = boost::json;

// Parses one JSON text. Deeper than limits::kJsonDepth or malformed: Error invalid_json with the position.
Result<json::value> parse_json(std::string_view text);
// As parse_json, and the text must be an object.
Result<json::object> parse_json_object(std::string_view text);

// Reads members of a JSON object. A missing or null member is an empty optional; a member of another type or out of
// range is Error invalid_request naming `path.name`. Unknown members are ignored. Borrows the object.
class ObjectReader {
 public:
  explicit ObjectReader(const json::object& object, std::string path = {}) : object_(object), path_(std::move(path)) {}

  Result<std::optional<std::int64_t>> integer(std::string_view name, std::int64_t min, std::int64_t max) const;
  // A JSON integer is a number too. NaN and infinity cannot be written in JSON.
  Result<std::optional<double>> number(std::string_view name, double min, double max) const;
  Result<std::optional<bool>> boolean(std::string_view name) const;
  Result<std::optional<std::string>> string(std::string_view name) const;
  // nullptr when missing or null.
  Result<const json::array*> array(std::string_view name) const;
  Result<const json::object*> object(std::string_view name) const;

  // The member as it is; nullptr when missing or null.
  const json::value* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  // "a.b" for member b of path a.
  std::string path_of(std::string_view name) const;

 private:
  const json::object& object_;
  std::string path_;
};

json::object to_json(const Fields& fields);

}  // namespace roost
