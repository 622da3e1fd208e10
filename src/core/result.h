// Result<T>: a value or an Error. Library layers return it; exceptions stay inside the adapters of throwing libraries.
//
//   Result<int> parse(std::string_view text);
//   auto n = parse("12");
//   if (!n) return n.error();        // an Error converts to any Result
//   use(*n);
//   ROOST_TRY(m, parse("13"));       // the same in one line: declares m, or returns the error
//   ROOST_CO_TRY(k, co_await ...);   // in a coroutine
#pragma once

#include <optional>
#include <utility>
#include <variant>

#include "core/check.h"
#include "core/error.h"

namespace roost {

template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}
  Result(ErrorKind kind, std::string message) : Result(Error{kind, std::move(message), {}, {}}) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & {
    ROOST_CHECK(ok(), "value() of an error");
    return std::get<0>(state_);
  }
  const T& value() const& {
    ROOST_CHECK(ok(), "value() of an error");
    return std::get<0>(state_);
  }
  T&& value() && {
    ROOST_CHECK(ok(), "value() of an error");
    return std::get<0>(std::move(state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  Error& error() & {
    ROOST_CHECK(!ok(), "error() of a value");
    return std::get<1>(state_);
  }
  const Error& error() const& {
    ROOST_CHECK(!ok(), "error() of a value");
    return std::get<1>(state_);
  }
  Error&& error() && {
    ROOST_CHECK(!ok(), "error() of a value");
    return std::get<1>(std::move(state_));
  }

 private:
  std::variant<T, Error> state_;
};

// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() = default;
  Result(Error error) : error_(std::move(error)) {}
  Result(ErrorKind kind, std::string message) : Result(Error{kind, std::move(message), {}, {}}) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }

  Error& error() & {
    ROOST_CHECK(!ok(), "error() of a success");
    return *error_;
  }
  const Error& error() const& {
    ROOST_CHECK(!ok(), "error() of a success");
    return *error_;
  }
  Error&& error() && {
    ROOST_CHECK(!ok(), "error() of a success");
    return *std::move(error_);
  }

 private:
  std::optional<Error> error_;
};

}  // namespace roost

#define ROOST_DETAIL_JOIN2(a, b) a##b
#define ROOST_DETAIL_JOIN(a, b) ROOST_DETAIL_JOIN2(a, b)
#define ROOST_DETAIL_TRY(keyword, result, name, ...) \
  auto result = (__VA_ARGS__);                       \
  if (!result) keyword std::move(result).error();    \
  auto name = *std::move(result)

#define ROOST_TRY(name, ...) ROOST_DETAIL_TRY(return, ROOST_DETAIL_JOIN(roost_try_, __LINE__), name, __VA_ARGS__)
#define ROOST_CO_TRY(name, ...) ROOST_DETAIL_TRY(co_return, ROOST_DETAIL_JOIN(roost_try_, __LINE__), name, __VA_ARGS__)
// For Result<void>.
#define ROOST_TRY_VOID(...) \
  if (auto roost_try_void = (__VA_ARGS__); !roost_try_void) return std::move(roost_try_void).error()
#define ROOST_CO_TRY_VOID(...) \
  if (auto roost_try_void = (__VA_ARGS__); !roost_try_void) co_return std::move(roost_try_void).error()
