#include "api/access.h"

namespace roost::api {
namespace {

constexpr std::string_view kBearer = "Bearer ";

std::string_view presented_key(const net::Request& head) {
  const std::string_view authorization = head.headers.get("Authorization");
  if (authorization.size() >= kBearer.size() &&
      net::equal_ignoring_case(authorization.substr(0, kBearer.size()), kBearer)) {
    return authorization.substr(kBearer.size());
  }
  return head.headers.get("X-Api-Key");
}

}  // namespace

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0U : 1U;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto other = b.empty() ? 0U : static_cast<unsigned>(static_cast<unsigned char>(b[i % b.size()]));
    difference |= static_cast<unsigned>(static_cast<unsigned char>(a[i])) ^ other;
  }
  return difference == 0;
}

Result<void> check_access(const net::Request& head, std::string_view key) {
  if (key.empty() || head.path == "/health" || head.path == "/v1/health") return {};
  if (equal_in_constant_time(presented_key(head), key)) return {};
  return {ErrorKind::unauthorized, "a valid API key is needed (Authorization: Bearer ...)"};
}

}  // namespace roost::api
