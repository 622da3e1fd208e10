// LlamaModel: a GGUF file loaded into libllama, with its context and the three ports that the engine and the HTTP layer
// see: kv() and port() for the engine thread, text() for every other.
//
// load() plans memory before anything large is allocated, and refuses with bad_config what does not fit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/result.h"
#include "engine/llama/memory_plan.h"
#include "engine/model_port.h"
#include "engine/text_model.h"
#include "kv/kv_port.h"

namespace roost::engine {

struct LlamaOptions {
  std::string path;
  std::string alias;               // empty = the file's name
  std::string chat_template_file;  // empty = the model's own template
  std::uint32_t ctx = 0;           // cells; 0 = automatic
  std::int32_t parallel = 8;
  std::int32_t max_pools = 16;
  std::uint32_t batch = 2048;  // tokens of a step
  std::uint32_t ubatch = 512;  // tokens that libllama computes at once
  std::int32_t threads = 0;    // 0 = usable CPUs
  std::int32_t gpu_layers = 999;
  std::string cache_type_k = "f16";
  std::string cache_type_v = "f16";
  bool unified = true;
  std::uint64_t available_memory = 0;              // bytes; 0 = ask the machine
  std::function<void(const MemoryPlan&)> on_plan;  // before the weights are loaded
  std::function<void(float)> on_progress;          // 0 to 1, while they are
};

// What the cache really is; for /props and the boot line.
struct KvLayout {
  std::string type_k, type_v;
  bool unified = true;
  bool swa_full = false;
  bool flash_attention = false;
  std::string attention = "stock";
};

// Sequences of the context: slots, pools, and one anchor where the limit of libllama allows (sliding-window models need
// it).
struct SequenceCount {
  std::int32_t n_seq = 0;
  bool anchor = false;
};

class LlamaModel {
 public:
  static Result<std::unique_ptr<LlamaModel>> load(const LlamaOptions& options);
  ~LlamaModel();
  LlamaModel(const LlamaModel&) = delete;
  LlamaModel& operator=(const LlamaModel&) = delete;

  kv::KvPort& kv();
  ModelPort& port();
  const TextModel& text() const;
  const MemoryPlan& plan() const;
  const KvLayout& layout() const;
  std::uint32_t batch() const;  // tokens of a step, at most
  std::int32_t threads() const;

 private:
  struct Impl;
  explicit LlamaModel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace roost::engine
