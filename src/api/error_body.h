// An Error as an HTTP answer: the one renderer for every route, so that status line, body and headers cannot disagree.
#pragma once

#include "core/error.h"
#include "core/json.h"
#include "net/http.h"

namespace roost::api {

// {"error":{"code","message","type","error_kind", details...},"reason":message}
json::object error_body(const Error& error);
// The same with the kind's status, and Retry-After where it has one.
net::Response error_response(const Error& error);

}  // namespace roost::api
