// The one error type. A library layer returns Result<T> (result.h) holding either a value or an Error; one table maps
// the kind to what a client sees, so that status line, body and headers come from one place and cannot disagree.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/field.h"

namespace roost {

enum class ErrorKind {
  // 400: the request is wrong
  invalid_request,
  invalid_json,
  prompt_required,
  session_mismatch,
  subject_conflict,
  never_fits,
  exceed_context_size,
  // 401
  unauthorized,
  token_required,
  token_invalid,
  token_expired,
  // 404, 405
  not_found,
  unknown_pool,
  session_not_found,
  turn_not_found,
  method_not_allowed,
  // 408, 409, 413, 431
  request_timeout,
  prefix_mismatch,
  pool_has_children,
  state_not_shareable,
  turn_in_progress,
  body_too_large,
  head_too_large,
  // 429: room may come
  overloaded,
  owner_full,
  server_full,
  tps_floor,
  settling,
  queue_full,
  // 499: the client left; nobody reads the answer
  cancelled,
  // 500, 501, 502
  internal,
  decode_failed,
  not_supported,
  pools_off,
  model_error,
  // 503: a part is away or full
  unavailable,
  pool_seats_exhausted,
  kv_exhausted,
  sandbox_saturated,
  sandbox_failed,
  pool_empty,
  redis_unavailable,
  model_unavailable,
  shutting_down,
  // 504
  timeout,
  // The process's own affairs: they end a start, not a request
  bad_config,
  io,
};

// What a client sees of a kind.
struct ErrorKindInfo {
  ErrorKind kind;
  std::string_view name;  // `error_kind` in bodies, and `error` in the worker's
  int status;             // HTTP status
  std::string_view type;  // `error.type` in OpenAI-shaped bodies
  int retry_after_s;      // Retry-After header; 0 = none
};

// The row of a kind. Every kind has one (checked by a test).
const ErrorKindInfo& info(ErrorKind kind);
std::span<const ErrorKindInfo> error_kinds();

struct Error {
  ErrorKind kind = ErrorKind::internal;
  std::string message;
  Fields details;                      // further members of the error body, for example the first differing index
  std::optional<int> retry_after_s{};  // overrides the table's, seconds

  int status() const { return info(kind).status; }
  std::string_view name() const { return info(kind).name; }
  int retry_after() const { return retry_after_s.value_or(info(kind).retry_after_s); }
};

// errno as a message: "what: No such file or directory".
Error io_error(std::string_view what, int error_number);

}  // namespace roost
