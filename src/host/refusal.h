// The answers that the supervisor itself gives, as bytes made once.
#pragma once

#include <string>

#include "core/error.h"

namespace roost::host {

// HTTP/1.1 with Connection: close, Retry-After from the error table and the body {"error":"<name>"}.
std::string refusal_bytes(ErrorKind kind);

}  // namespace roost::host
