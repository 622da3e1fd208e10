// One short command run to its end, for the self-test at the start. Blocks, at most 10 s.
#pragma once

#include <string>

#include "sandbox/zygote.h"

namespace roost::sandbox {

struct ProbeResult {
  int exit_status = -1;  // < 0: did not run, a signal, or too slow
  std::string out;
  std::string err;
};

ProbeResult run_probe(Zygote& zygote, SpawnRequest request);

}  // namespace roost::sandbox
