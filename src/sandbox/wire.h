// The generated types of package sandbox.v1 under a short name.
#pragma once

#include "sandbox/v1/sandbox.pb.h"

namespace roost::sandbox {
namespace wire = ::sandbox::v1;
}  // namespace roost::sandbox
