// libllama, ggml and libcommon write to one global log callback each. Here they end in our JSON log at level debug, and
// the last errors are kept, so that a failed call can say why.
#pragma once

#include <string>

namespace roost::engine {

// Takes the libraries' logs over. Call once at start, before any other call to libllama; later calls change nothing.
void capture_llama_log();

// The error lines since the last call, joined by "; ". Empties the store. Thread-safe; with several threads in libllama
// the lines may be another's.
std::string take_llama_errors();

}  // namespace roost::engine
