// KvPort over libllama's memory. This is the one file that may look into libllama's internal cache headers: the public
// API shows positions only, and check_integrity() must count cells. Engine thread only.
#pragma once

#include <memory>

#include "kv/kv_port.h"

struct llama_context;

namespace roost::engine {

// `context` must outlive the port. `bytes_per_cell`: K and V of all layers.
std::unique_ptr<kv::KvPort> make_llama_kv_port(llama_context* context, bool unified, std::size_t bytes_per_cell);

}  // namespace roost::engine
