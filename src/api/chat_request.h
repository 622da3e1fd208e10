// The conversation part of a request body: messages, tools, tool_choice, response_format, template variables. Pure.
#pragma once

#include <string>

#include "core/json.h"
#include "core/result.h"

namespace roost::api {

// The JSON schema that the answer must follow, as JSON text: json_schema, or response_format. Empty = none.
Result<std::string> parse_schema(const json::object& body);

// Does tool_choice name one function? Then one call is wanted.
bool names_one_function(const json::object& body);

}  // namespace roost::api
