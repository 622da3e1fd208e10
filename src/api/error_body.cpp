#include "api/error_body.h"

#include <string>

namespace roost::api {

json::object error_body(const Error& error) {
  json::object inner;
  inner["code"] = error.status();
  inner["message"] = error.message;
  inner["type"] = info(error.kind).type;
  inner["error_kind"] = error.name();
  for (auto& [name, value] : to_json(error.details)) inner[name] = value;
  json::object body;
  body["error"] = std::move(inner);
  body["reason"] = error.message;
  return body;
}

net::Response error_response(const Error& error) {
  net::Response response = net::Response::json(error.status(), error_body(error));
  if (const int seconds = error.retry_after(); seconds > 0)
    response.headers.set("Retry-After", std::to_string(seconds));
  return response;
}

}  // namespace roost::api
