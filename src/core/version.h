#pragma once

namespace roost {
inline constexpr const char* kVersion = "0.1.0";
}
