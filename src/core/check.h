// ROOST_CHECK: a broken invariant ends the process with a message. Never for input: a request value must not reach one.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace roost::detail {
[[noreturn]] inline void check_failed(const char* expression, const char* file, int line, const char* why) {
  std::fprintf(stderr, "roost: broken invariant %s at %s:%d%s%s\n", expression, file, line, *why ? ": " : "", why);
  std::abort();
}
}  // namespace roost::detail

// ROOST_CHECK(condition) or ROOST_CHECK(condition, "why it must hold").
#define ROOST_CHECK(condition, ...)                                                  \
  do {                                                                               \
    if (!(condition)) [[unlikely]]                                                   \
      ::roost::detail::check_failed(#condition, __FILE__, __LINE__, "" __VA_ARGS__); \
  } while (false)
