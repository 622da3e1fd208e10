#include "host/refusal.h"

#include <fmt/format.h>

#include "net/http.h"

namespace roost::host {

std::string refusal_bytes(ErrorKind kind) {
  const ErrorKindInfo& about = info(kind);
  const std::string body = fmt::format(R"({{"error":"{}"}})", about.name);
  const std::string retry = about.retry_after_s > 0 ? fmt::format("Retry-After: {}\r\n", about.retry_after_s) : "";
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: application/json\r\n{}Connection: close\r\nContent-Length: {}\r\n\r\n{}",
      about.status, net::reason_phrase(about.status), retry, body.size(), body);
}

}  // namespace roost::host
