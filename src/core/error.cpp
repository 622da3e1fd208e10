#include "core/error.h"

#include <array>
#include <cstring>

#include "core/check.h"

namespace roost {
namespace {

constexpr std::string_view kInvalid = "invalid_request_error";
constexpr std::string_view kAuth = "authentication_error";
constexpr std::string_view kNotFound = "not_found_error";
constexpr std::string_view kConflict = "conflict";
constexpr std::string_view kRateLimit = "rate_limit_error";
constexpr std::string_view kServer = "server_error";
constexpr std::string_view kNotSupported = "not_supported_error";
constexpr std::string_view kUnavailable = "unavailable_error";

using enum ErrorKind;
constexpr std::array kTable{
    ErrorKindInfo{invalid_request, "invalid_request", 400, kInvalid, 0},
    ErrorKindInfo{invalid_json, "invalid_json", 400, kInvalid, 0},
    ErrorKindInfo{prompt_required, "prompt_required", 400, kInvalid, 0},
    ErrorKindInfo{session_mismatch, "session_mismatch", 400, kInvalid, 0},
    ErrorKindInfo{subject_conflict, "subject_conflict", 400, kInvalid, 0},
    ErrorKindInfo{never_fits, "never_fits", 400, kInvalid, 0},
    ErrorKindInfo{exceed_context_size, "exceed_context_size", 400, "exceed_context_size_error", 0},
    ErrorKindInfo{unauthorized, "unauthorized", 401, kAuth, 0},
    ErrorKindInfo{token_required, "token_required", 401, kAuth, 0},
    ErrorKindInfo{token_invalid, "token_invalid", 401, kAuth, 0},
    ErrorKindInfo{token_expired, "token_expired", 401, kAuth, 0},
    ErrorKindInfo{not_found, "not_found", 404, kNotFound, 0},
    ErrorKindInfo{unknown_pool, "unknown_pool", 404, kNotFound, 0},
    ErrorKindInfo{session_not_found, "session_not_found", 404, kNotFound, 0},
    ErrorKindInfo{turn_not_found, "turn_not_found", 404, kNotFound, 0},
    ErrorKindInfo{method_not_allowed, "method_not_allowed", 405, kInvalid, 0},
    ErrorKindInfo{request_timeout, "request_timeout", 408, kInvalid, 0},
    ErrorKindInfo{prefix_mismatch, "prefix_mismatch", 409, kConflict, 0},
    ErrorKindInfo{pool_has_children, "pool_has_children", 409, kConflict, 0},
    ErrorKindInfo{state_not_shareable, "state_not_shareable", 409, kConflict, 0},
    ErrorKindInfo{turn_in_progress, "turn_in_progress", 409, kConflict, 0},
    ErrorKindInfo{body_too_large, "body_too_large", 413, kInvalid, 0},
    ErrorKindInfo{head_too_large, "head_too_large", 431, kInvalid, 0},
    ErrorKindInfo{overloaded, "overloaded", 429, kRateLimit, 1},
    ErrorKindInfo{owner_full, "owner_full", 429, kRateLimit, 1},
    ErrorKindInfo{server_full, "server_full", 429, kRateLimit, 1},
    ErrorKindInfo{tps_floor, "tps_floor", 429, kRateLimit, 1},
    ErrorKindInfo{settling, "settling", 429, kRateLimit, 1},
    ErrorKindInfo{queue_full, "queue_full", 429, kRateLimit, 1},
    ErrorKindInfo{cancelled, "cancelled", 499, kServer, 0},
    ErrorKindInfo{internal, "internal", 500, kServer, 0},
    ErrorKindInfo{decode_failed, "decode_failed", 500, kServer, 0},
    ErrorKindInfo{not_supported, "not_supported", 501, kNotSupported, 0},
    ErrorKindInfo{pools_off, "pools_off", 501, kNotSupported, 0},
    ErrorKindInfo{model_error, "model_error", 502, kServer, 0},
    ErrorKindInfo{unavailable, "unavailable", 503, kUnavailable, 1},
    ErrorKindInfo{pool_seats_exhausted, "pool_seats_exhausted", 503, kUnavailable, 1},
    ErrorKindInfo{kv_exhausted, "kv_exhausted", 503, kUnavailable, 1},
    ErrorKindInfo{sandbox_saturated, "sandbox_saturated", 503, kUnavailable, 1},
    ErrorKindInfo{sandbox_failed, "sandbox_failed", 503, kUnavailable, 1},
    ErrorKindInfo{pool_empty, "pool_empty", 503, kUnavailable, 5},
    ErrorKindInfo{redis_unavailable, "redis_unavailable", 503, kUnavailable, 1},
    ErrorKindInfo{model_unavailable, "model_unavailable", 503, kUnavailable, 1},
    ErrorKindInfo{shutting_down, "shutting_down", 503, kUnavailable, 1},
    ErrorKindInfo{timeout, "timeout", 504, kServer, 0},
    ErrorKindInfo{bad_config, "bad_config", 500, kServer, 0},
    ErrorKindInfo{io, "io", 500, kServer, 0},
};

// The table is indexed by the enum: a row out of order does not compile.
constexpr bool in_order() {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (static_cast<std::size_t>(kTable[i].kind) != i) return false;
  }
  return kTable.size() == static_cast<std::size_t>(io) + 1;
}
static_assert(in_order(), "kTable must list every ErrorKind in the order of the enum");

}  // namespace

const ErrorKindInfo& info(ErrorKind kind) {
  const auto index = static_cast<std::size_t>(kind);
  ROOST_CHECK(index < kTable.size(), "an ErrorKind made from a stray integer");
  return kTable[index];
}

std::span<const ErrorKindInfo> error_kinds() { return kTable; }

Error io_error(std::string_view what, int error_number) {
  return {ErrorKind::io, std::string(what) + ": " + std::strerror(error_number), {}, {}};
}

}  // namespace roost
