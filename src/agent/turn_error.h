// Errors as the worker's clients see them: {"error": kind, "message"?, "sessionId"?, details...} with the kind's status
// and Retry-After. The one renderer; net uses it too for what never reaches a route.
#pragma once

#include <string_view>

#include "core/error.h"
#include "net/http.h"

namespace roost::agent {

net::Response render_turn_error(const Error& error, std::string_view session_id = {});

}  // namespace roost::agent
