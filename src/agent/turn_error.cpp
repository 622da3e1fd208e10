#include "agent/turn_error.h"

#include "core/json.h"

namespace roost::agent {

net::Response render_turn_error(const Error& error, std::string_view session_id) {
  json::object body{{"error", error.name()}};
  if (!error.message.empty()) body["message"] = error.message;
  if (!session_id.empty()) body["sessionId"] = session_id;
  for (auto& member : to_json(error.details)) body.insert(member);
  net::Response response = net::Response::json(error.status(), body);
  if (error.retry_after() > 0) response.headers.add("Retry-After", std::to_string(error.retry_after()));
  return response;
}

}  // namespace roost::agent
