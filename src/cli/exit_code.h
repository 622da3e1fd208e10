// Exit codes of the roost command (sysexits where there is one).
#pragma once

#include "core/error.h"

namespace roost::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 64;   // an unknown subcommand or flag
inline constexpr int kExitConfig = 78;  // a value that cannot work: out of range, port in use, no such model, ...

// Prints "roost COMMAND: message" on standard error and gives the exit code for the error.
int report_failure(std::string_view command, const Error& error);

}  // namespace roost::cli
