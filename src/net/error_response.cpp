#include "net/http_server.h"

namespace roost::net {

Response default_error_response(const Error& error) {
  json::object inner = to_json(error.details);
  inner["code"] = error.status();
  inner["message"] = error.message;
  inner["type"] = info(error.kind).type;
  inner["error_kind"] = error.name();
  Response response = Response::json(error.status(), json::object{{"error", std::move(inner)}});
  if (error.retry_after() > 0) response.headers.set("Retry-After", std::to_string(error.retry_after()));
  return response;
}

}  // namespace roost::net
