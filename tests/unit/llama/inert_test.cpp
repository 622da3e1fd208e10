// The gate "unused = inert", the part that must hold bit for bit: with no pool used and automatic sharing off, the
// engine does to libllama exactly what a plain program would: the logits of its batches equal those of a second context
// that is fed the same batches directly, and no sequence is ever copied.
#include <gtest/gtest.h>
#include <llama.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <variant>
#include <vector>

#include "core/clock.h"
#include "engine/engine_loop.h"
#include "engine/llama/llama_kv_port.h"
#include "engine/llama/llama_model_port.h"

namespace roost::engine {
namespace {

constexpr std::int32_t kCells = 1024;
constexpr kv::SeqId kSequences = 5;  // two slots, two pools, the anchor

std::string model_path() {
  const char* chosen = std::getenv("ROOST_TEST_MODEL");
  return chosen != nullptr ? chosen : ROOST_TEST_MODEL_PATH;
}

struct Removed {
  kv::SeqId seq;
  kv::Pos begin, end;
};
struct Decoded {
  std::vector<BatchToken> batch;
  std::vector<std::vector<float>> logits;  // of the tokens that wanted them, in order
};
using Recorded = std::variant<Removed, Decoded>;

llama_context* make_context(llama_model* model) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = kCells;
  params.n_batch = 256;
  params.n_ubatch = 64;
  params.n_seq_max = kSequences;
  params.kv_unified = true;
  params.n_threads = 1;
  params.n_threads_batch = 1;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
  return llama_init_from_model(model, params);
}

// Passes everything on and keeps a record.
class RecordingKv final : public kv::KvPort {
 public:
  RecordingKv(kv::KvPort& real, std::vector<Recorded>& record) : real_(real), record_(record) {}
  kv::KvTraits traits() const override { return real_.traits(); }
  void seq_cp(kv::SeqId from, kv::SeqId to, kv::Pos begin, kv::Pos end) override {
    ++copies;
    real_.seq_cp(from, to, begin, end);
  }
  bool seq_rm(kv::SeqId seq, kv::Pos begin, kv::Pos end) override {
    record_.emplace_back(Removed{seq, begin, end});
    return real_.seq_rm(seq, begin, end);
  }
  kv::Pos pos_min(kv::SeqId seq) const override { return real_.pos_min(seq); }
  kv::Pos pos_max(kv::SeqId seq) const override { return real_.pos_max(seq); }
  std::size_t cells_used() const override { return real_.cells_used(); }
  int copies = 0;

 private:
  kv::KvPort& real_;
  std::vector<Recorded>& record_;
};

class RecordingModel final : public ModelPort {
 public:
  RecordingModel(ModelPort& real, llama_context* context, std::vector<Recorded>& record)
      : real_(real), context_(context), record_(record) {}
  DecodeStatus decode(std::span<const BatchToken> batch) override {
    const DecodeStatus status = real_.decode(batch);
    Decoded decoded{{batch.begin(), batch.end()}, {}};
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (!batch[i].logits) continue;
      const float* logits = llama_get_logits_ith(context_, static_cast<std::int32_t>(i));
      decoded.logits.emplace_back(logits, logits + vocabulary_size());
    }
    record_.emplace_back(std::move(decoded));
    return status;
  }
  bool is_end_of_generation(kv::Token token) const override { return real_.is_end_of_generation(token); }
  std::int32_t vocabulary_size() const override { return real_.vocabulary_size(); }
  std::int32_t training_length() const override { return real_.training_length(); }

 private:
  ModelPort& real_;
  llama_context* context_;
  std::vector<Recorded>& record_;
};

class Greedy final : public Sampler {
 public:
  Greedy(llama_context* context, std::int32_t vocabulary) : context_(context), vocabulary_(vocabulary) {}
  Drawn draw(std::int32_t index) override {
    const float* logits = llama_get_logits_ith(context_, index);
    return {static_cast<kv::Token>(std::max_element(logits, logits + vocabulary_) - logits), 0.0F, {}};
  }
  void accept_prompt(const kv::Tokens&) override {}

 private:
  llama_context* context_;
  std::int32_t vocabulary_;
};

class InertTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(model_path())) GTEST_SKIP() << "no test model";
    llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = 0;
    model_ = llama_model_load_from_file(model_path().c_str(), params);
    ASSERT_NE(model_, nullptr);
    context_ = make_context(model_);
    plain_ = make_context(model_);
    ASSERT_TRUE(context_ != nullptr && plain_ != nullptr);
  }
  void TearDown() override {
    llama_free(context_);
    llama_free(plain_);
    llama_model_free(model_);
  }

  // What a plain program does: the same removals and batches, straight to libllama.
  void replay_and_compare(const std::vector<Recorded>& record) {
    const std::int32_t vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model_));
    std::size_t compared = 0;
    for (const Recorded& entry : record) {
      if (const auto* removed = std::get_if<Removed>(&entry)) {
        llama_memory_seq_rm(llama_get_memory(plain_), removed->seq, removed->begin, removed->end);
        continue;
      }
      const auto& decoded = std::get<Decoded>(entry);
      llama_batch batch = llama_batch_init(static_cast<std::int32_t>(decoded.batch.size()), 0, 1);
      for (const BatchToken& t : decoded.batch) {
        const std::int32_t i = batch.n_tokens++;
        batch.token[i] = t.token;
        batch.pos[i] = t.pos;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = t.seq;
        batch.logits[i] = static_cast<std::int8_t>(t.logits);
      }
      ASSERT_EQ(llama_decode(plain_, batch), 0);
      llama_batch_free(batch);
      std::size_t nth = 0;
      for (std::size_t i = 0; i < decoded.batch.size(); ++i) {
        if (!decoded.batch[i].logits) continue;
        const float* logits = llama_get_logits_ith(plain_, static_cast<std::int32_t>(i));
        ASSERT_EQ(
            std::memcmp(logits, decoded.logits[nth++].data(), sizeof(float) * static_cast<std::size_t>(vocabulary)), 0);
        ++compared;
      }
    }
    EXPECT_GT(compared, 20U);
  }

  llama_model* model_ = nullptr;
  llama_context* context_ = nullptr;
  llama_context* plain_ = nullptr;
};

TEST_F(InertTest, TheLogitsEqualLibllamasOwnOnTheSameBatchesBitForBit) {
  std::vector<Recorded> record;
  const auto kv_port = make_llama_kv_port(context_, true, 1);
  const auto model_port = make_llama_model_port(context_, kSequences);
  RecordingKv kv(*kv_port, record);
  RecordingModel port(*model_port, context_, record);
  const SystemClock clock;
  EngineOptions options;
  options.parallel = 2;
  options.max_pools = 2;
  options.batch = 256;
  options.auto_share = false;
  EngineLoop loop(kv, port, clock, options);

  // Sequential requests, as the gate says: two turns of one session, another one with the same beginning, and an
  // anonymous one.
  const std::vector<std::pair<std::string, std::size_t>> requests{{"a", 90}, {"a", 130}, {"b", 90}, {"", 60}};
  for (std::size_t r = 0; r < requests.size(); ++r) {
    Submit submit;
    submit.id = r + 1;
    submit.session_id = requests[r].first;
    for (std::size_t i = 0; i < requests[r].second; ++i)
      submit.prompt.push_back(static_cast<kv::Token>(100 + (i * 37) % 5000));
    submit.max_tokens = 12;
    submit.ignore_eos = true;
    submit.sampler = std::make_unique<Greedy>(context_, port.vocabulary_size());
    auto ring = std::make_shared<EventRing>([] {});
    submit.events = ring;
    loop.handle(std::move(submit));
    bool finished = false;
    for (int step = 0; step < 200 && !finished; ++step) {
      loop.step();
      while (auto event = ring->pop()) {
        ASSERT_FALSE(std::holds_alternative<Failed>(*event)) << std::get<Failed>(*event).error.message;
        finished = finished || std::holds_alternative<Finished>(*event);
      }
    }
    ASSERT_TRUE(finished);
  }
  EXPECT_EQ(kv.copies, 0) << "nothing is shared when nobody asks";
  replay_and_compare(record);
}

}  // namespace
}  // namespace roost::engine
