#include "engine/llama/llama_model.h"

#include <fmt/format.h>
#include <llama-ext.h>
#include <llama.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "core/log.h"
#include "engine/llama/llama_kv_port.h"
#include "engine/llama/llama_log.h"
#include "engine/llama/llama_model_port.h"
#include "engine/llama/llama_text.h"

namespace roost::engine {
namespace {

struct ModelDeleter {
  void operator()(llama_model* model) const { llama_model_free(model); }
};
struct ContextDeleter {
  void operator()(llama_context* context) const { llama_free(context); }
};
using ModelPtr = std::unique_ptr<llama_model, ModelDeleter>;
using ContextPtr = std::unique_ptr<llama_context, ContextDeleter>;

// LLAMA_MAX_SEQ of the pinned libllama.
constexpr std::int32_t kMaxSequences = 256;
// Code, heap of the server, buffers of a few hundred requests.
constexpr std::uint64_t kHostBytes = 96ULL << 20U;

Error bad_config(std::string message) { return {ErrorKind::bad_config, std::move(message), {}, {}}; }

// libllama reads anything; what is plainly not a model is told in our words.
Result<void> check_file(const std::string& path) {
  if (path.empty()) return bad_config("no model is given: use -m/--model FILE.gguf (or ROOST_MODEL)");
  std::error_code ec;
  if (std::filesystem::is_directory(path, ec)) return bad_config(fmt::format("the model {} is a directory", path));
  std::ifstream in(path, std::ios::binary);
  if (!in) return bad_config(fmt::format("the model {} cannot be read: {}", path, std::strerror(errno)));
  std::array<char, 4> magic{};
  in.read(magic.data(), magic.size());
  if (in.gcount() != 4 || std::string_view(magic.data(), 4) != "GGUF") {
    return bad_config(fmt::format("{} is not a GGUF model file", path));
  }
  return {};
}

Error load_failed(const std::string& path) {
  const std::string why = take_llama_errors();
  return bad_config(
      fmt::format("the model {} cannot be loaded: {}", path, why.empty() ? "libllama gives no reason" : why));
}

ggml_type cache_type(const std::string& name) {
  if (name == "f32") return GGML_TYPE_F32;
  if (name == "bf16") return GGML_TYPE_BF16;
  if (name == "q8_0") return GGML_TYPE_Q8_0;
  if (name == "q4_0") return GGML_TYPE_Q4_0;
  return GGML_TYPE_F16;
}

Result<SequenceCount> count_sequences(const LlamaOptions& options, bool sliding_window) {
  const std::int32_t wanted = options.parallel + options.max_pools;
  if (wanted > kMaxSequences) {
    return bad_config(fmt::format("--parallel {} + --polykv-max-pools {} is {}, at most {} sequences are possible",
                                  options.parallel, options.max_pools, wanted, kMaxSequences));
  }
  if (options.max_pools == 0) return SequenceCount{options.parallel, false};
  if (wanted < kMaxSequences) return SequenceCount{wanted + 1, true};
  if (!sliding_window) return SequenceCount{wanted, false};
  return bad_config(
      fmt::format("a sliding-window model needs one sequence more than --parallel {} + --polykv-max-pools {}: "
                  "lower one of them by 1",
                  options.parallel, options.max_pools));
}

llama_model_params model_params(const LlamaOptions& options) {
  llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = options.gpu_layers;
  return params;
}

llama_context_params context_params(const LlamaOptions& options, const SequenceCount& sequences, int threads) {
  llama_context_params params = llama_context_default_params();
  params.n_batch = std::max(options.batch, options.ubatch);
  params.n_ubatch = options.ubatch;
  params.n_seq_max = static_cast<std::uint32_t>(sequences.n_seq);
  // One output per sequence and step; libllama's default reserves logits for a whole batch.
  params.n_outputs_max = static_cast<std::uint32_t>(sequences.n_seq);
  params.n_threads = threads;
  params.n_threads_batch = threads;
  params.type_k = cache_type(options.cache_type_k);
  params.type_v = cache_type(options.cache_type_v);
  params.kv_unified = options.unified;
  params.swa_full = options.max_pools > 0;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
  params.no_perf = true;
  return params;
}

ContextMemory memory_of(const llama_context* context) {
  ContextMemory memory;
  for (const auto& [type, data] : llama_get_memory_breakdown(context)) {
    memory.kv += data.context;
    memory.compute += data.compute;
  }
  return memory;
}

// Measures contexts on a model whose tensors are not allocated.
class DryRun {
 public:
  DryRun(const LlamaOptions& options, llama_model* model, llama_context_params params)
      : options_(options), model_(model), params_(params) {}

  Result<ContextMemory> measure(std::uint32_t cells) {
    params_.n_ctx = cells;
    ContextPtr context(llama_init_from_model(model_, params_));
    if (!context && params_.flash_attn_type == LLAMA_FLASH_ATTN_TYPE_ENABLED && !ggml_is_quantized(params_.type_v)) {
      params_.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;  // the model cannot do it
      context.reset(llama_init_from_model(model_, params_));
    }
    if (!context) {
      return bad_config(fmt::format("no context can be made for {} (cache types {}/{}): {}", options_.path,
                                    options_.cache_type_k, options_.cache_type_v, take_llama_errors()));
    }
    return memory_of(context.get());
  }
  const llama_context_params& params() const { return params_; }

 private:
  const LlamaOptions& options_;
  llama_model* model_;
  llama_context_params params_;
};

// The smallest number of cells that contexts of this layout grow by.
std::uint32_t cell_step(const LlamaOptions& options, const SequenceCount& sequences) {
  return options.unified ? kCellStep : kCellStep * static_cast<std::uint32_t>(sequences.n_seq);
}

std::uint32_t round_up(std::uint32_t n, std::uint32_t step) { return (n + step - 1) / step * step; }

struct Planned {
  MemoryPlan plan;
  llama_context_params params;
  SequenceCount sequences;
};

Result<Planned> make_plan(const LlamaOptions& options, int threads) {
  llama_model_params dry = model_params(options);
  dry.no_alloc = true;
  dry.load_mode = LLAMA_LOAD_MODE_NONE;
  const ModelPtr model(llama_model_load_from_file(options.path.c_str(), dry));
  if (!model) return load_failed(options.path);
  if (!llama_model_has_decoder(model.get()) || llama_model_has_encoder(model.get())) {
    return bad_config(fmt::format("{} is not a decoder-only model", options.path));
  }
  ROOST_TRY(sequences, count_sequences(options, llama_model_n_swa(model.get()) > 0));
  DryRun run(options, model.get(), context_params(options, sequences, threads));

  MemoryPlan plan;
  plan.available = options.available_memory != 0 ? options.available_memory : available_memory();
  plan.weights = llama_model_size(model.get());
  const auto vocabulary = static_cast<std::uint64_t>(llama_vocab_n_tokens(llama_model_get_vocab(model.get())));
  // Logits of each sequence, and the samplers' candidate arrays.
  plan.host = kHostBytes + vocabulary * static_cast<std::uint64_t>(sequences.n_seq) * 16;

  const std::uint32_t step = cell_step(options, sequences);
  if (options.ctx != 0) {
    plan.cells = round_up(options.ctx, step);
  } else {
    const auto training = static_cast<std::uint32_t>(std::max(llama_model_n_ctx_train(model.get()), 1));
    const std::uint32_t limit = round_up(training * kAutoLengthFactor, step);
    ROOST_TRY(small, run.measure(4 * step));
    ROOST_TRY(large, run.measure(16 * step));
    const auto budget = static_cast<std::uint64_t>(static_cast<double>(plan.available) * kAutoMemoryShare);
    plan.cells =
        largest_context(4 * step, small, 16 * step, large, plan.weights + plan.host, budget, limit) / step * step;
    plan.cells = std::max(plan.cells, 4 * step);
  }
  ROOST_TRY(memory, run.measure(plan.cells));
  plan.kv = memory.kv;
  plan.compute = memory.compute;
  Planned planned{plan, run.params(), sequences};
  planned.params.n_ctx = plan.cells;
  return planned;
}

// Passes libllama's progress on in steps of a percent.
struct Progress {
  const std::function<void(float)>& report;
  int last_percent = -1;

  static bool callback(float progress, void* self) {
    auto& p = *static_cast<Progress*>(self);
    const int percent = static_cast<int>(progress * 100);
    if (percent != p.last_percent) {
      p.last_percent = percent;
      p.report(progress);
    }
    return true;
  }
};

}  // namespace

struct LlamaModel::Impl {
  ModelPtr model;
  ContextPtr context;
  std::unique_ptr<kv::KvPort> kv;
  std::unique_ptr<ModelPort> port;
  std::unique_ptr<TextModel> text;
  MemoryPlan plan;
  KvLayout layout;
  std::int32_t threads = 1;
};

LlamaModel::LlamaModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LlamaModel::~LlamaModel() = default;

Result<std::unique_ptr<LlamaModel>> LlamaModel::load(const LlamaOptions& options) {
  capture_llama_log();
  llama_backend_init();
  take_llama_errors();
  ROOST_TRY_VOID(check_file(options.path));
  auto impl = std::make_unique<Impl>();
  impl->threads = options.threads > 0 ? options.threads : usable_cpus();
  try {
    ROOST_TRY(planned, make_plan(options, impl->threads));
    impl->plan = planned.plan;
    if (options.on_plan) options.on_plan(impl->plan);
    ROOST_TRY_VOID(check_fits(impl->plan));

    llama_model_params params = model_params(options);
    Progress progress{options.on_progress};
    if (options.on_progress) {
      params.progress_callback = &Progress::callback;
      params.progress_callback_user_data = &progress;
    }
    impl->model.reset(llama_model_load_from_file(options.path.c_str(), params));
    if (!impl->model) return load_failed(options.path);
    impl->context.reset(llama_init_from_model(impl->model.get(), planned.params));
    if (!impl->context) {
      return bad_config(fmt::format("the context cannot be made: {}", take_llama_errors()));
    }
    impl->layout = {options.cache_type_k,
                    options.cache_type_v,
                    options.unified,
                    planned.params.swa_full,
                    planned.params.flash_attn_type == LLAMA_FLASH_ATTN_TYPE_ENABLED,
                    "stock"};
    impl->kv = make_llama_kv_port(impl->context.get(), options.unified,
                                  static_cast<std::size_t>(impl->plan.kv / llama_n_ctx(impl->context.get())));
    impl->port = make_llama_model_port(impl->context.get(), static_cast<std::int32_t>(planned.params.n_outputs_max));
    ROOST_TRY(text, make_llama_text(impl->model.get(), impl->context.get(),
                                    {options.path, options.alias, options.chat_template_file}));
    impl->text = std::move(text);
  } catch (const std::exception& e) {
    return bad_config(fmt::format("the model {} cannot be used: {}", options.path, e.what()));
  }
  return std::unique_ptr<LlamaModel>(new LlamaModel(std::move(impl)));
}

kv::KvPort& LlamaModel::kv() { return *impl_->kv; }
ModelPort& LlamaModel::port() { return *impl_->port; }
const TextModel& LlamaModel::text() const { return *impl_->text; }
const MemoryPlan& LlamaModel::plan() const { return impl_->plan; }
const KvLayout& LlamaModel::layout() const { return impl_->layout; }
std::uint32_t LlamaModel::batch() const { return llama_n_batch(impl_->context.get()); }
std::int32_t LlamaModel::threads() const { return impl_->threads; }

}  // namespace roost::engine
