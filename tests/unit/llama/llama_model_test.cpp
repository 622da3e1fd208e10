// The adapters on the real demo model: memory, decode, tokens, templates, grammars.
#include "engine/llama/llama_model.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace roost::engine {
namespace {

std::string model_path() {
  const char* chosen = std::getenv("ROOST_TEST_MODEL");
  return chosen != nullptr ? chosen : ROOST_TEST_MODEL_PATH;
}

LlamaOptions small_options() {
  LlamaOptions o;
  o.path = model_path();
  o.ctx = 512;
  o.parallel = 2;
  o.max_pools = 2;
  o.batch = 256;
  o.ubatch = 128;
  o.threads = 1;  // no waiting for one another on a loaded machine
  return o;
}

// Loaded once for all tests of this file.
LlamaModel& model() {
  static const std::unique_ptr<LlamaModel> loaded = [] {
    auto result = LlamaModel::load(small_options());
    if (!result) throw std::runtime_error(result.error().message);
    return *std::move(result);
  }();
  return *loaded;
}

class LlamaModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(model_path())) GTEST_SKIP() << "no test model";
    for (kv::SeqId s = 0; s < model().kv().traits().n_seq; ++s) ASSERT_TRUE(model().kv().seq_rm(s, 0, -1));
  }

  // Decodes `tokens` as sequence `seq` from position `from`, logits at the last.
  static DecodeStatus decode(const kv::Tokens& tokens, kv::SeqId seq, kv::Pos from) {
    std::vector<BatchToken> batch;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      batch.push_back({tokens[i], from + static_cast<kv::Pos>(i), seq, i + 1 == tokens.size()});
    }
    return model().port().decode(batch);
  }
  static kv::Token greedy(std::int32_t index) {
    SamplingParams params;
    params.temperature = 0;
    auto sampler = *model().text().make_sampler(params, nullptr);
    return sampler->draw(index).token;
  }
};

TEST_F(LlamaModelTest, CellsUsedCountsTheCacheItself) {
  kv::KvPort& kv = model().kv();
  const kv::Tokens tokens = *model().text().tokenize("The quick brown fox jumps over the lazy dog.", false, false);
  const auto n = static_cast<kv::Pos>(tokens.size());
  EXPECT_EQ(kv.cells_used(), 0U);
  ASSERT_EQ(decode(tokens, 0, 0), DecodeStatus::ok);
  EXPECT_EQ(kv.cells_used(), tokens.size());
  EXPECT_EQ(kv.pos_min(0), 0);
  EXPECT_EQ(kv.pos_max(0), n - 1);

  kv.seq_cp(0, 3, 0, n);  // shared: no cell more
  EXPECT_EQ(kv.cells_used(), tokens.size());
  EXPECT_EQ(kv.pos_max(3), n - 1);
  ASSERT_TRUE(kv.seq_rm(0, 0, -1));  // still held by 3
  EXPECT_EQ(kv.cells_used(), tokens.size());
  EXPECT_EQ(kv.pos_max(0), -1);
  ASSERT_TRUE(kv.seq_rm(3, 4, -1));
  EXPECT_EQ(kv.cells_used(), 4U);
  ASSERT_TRUE(kv.seq_rm(3, 0, -1));
  EXPECT_EQ(kv.cells_used(), 0U);
}

TEST_F(LlamaModelTest, ASharedPrefixGivesTheSameNextToken) {
  const kv::Tokens prefix = *model().text().tokenize("The capital of France is", false, false);
  const kv::Tokens tail = *model().text().tokenize(" the city of", false, false);
  ASSERT_EQ(decode(prefix, 2, 0), DecodeStatus::ok);
  const auto n = static_cast<kv::Pos>(prefix.size());
  model().kv().seq_cp(2, 0, 0, n);
  ASSERT_EQ(decode(tail, 0, n), DecodeStatus::ok);
  const kv::Token shared = greedy(static_cast<std::int32_t>(tail.size()) - 1);

  kv::Tokens whole = prefix;
  whole.insert(whole.end(), tail.begin(), tail.end());
  ASSERT_EQ(decode(whole, 1, 0), DecodeStatus::ok);
  EXPECT_EQ(greedy(static_cast<std::int32_t>(whole.size()) - 1), shared);
}

TEST_F(LlamaModelTest, AFullCacheIsNoSlotAndAnOversizedBatchFails) {
  const kv::Tokens tokens(256, 100);
  for (kv::Pos from = 0; from < 512; from += 256) ASSERT_EQ(decode(tokens, 0, from), DecodeStatus::ok);
  EXPECT_EQ(decode({100}, 1, 0), DecodeStatus::no_slot);
  EXPECT_EQ(model().kv().cells_used(), 512U);
  EXPECT_EQ(decode(kv::Tokens(257, 100), 1, 0), DecodeStatus::failed);
}

TEST_F(LlamaModelTest, TheTraitsSayWhatTheCacheIs) {
  const kv::KvTraits t = model().kv().traits();
  EXPECT_EQ(t.cells, 512U);
  EXPECT_EQ(t.n_seq, 5) << "slots, pools and the anchor";
  EXPECT_TRUE(t.unified);
  EXPECT_GT(t.bytes_per_cell, 0U);
  EXPECT_EQ(model().plan().kv, t.bytes_per_cell * t.cells);
}

TEST_F(LlamaModelTest, TextSurvivesTokensAndBack) {
  const TextModel& text = model().text();
  for (const std::string sample : {"Hello, world!", "äöü € 日本 👍", "  spaces\n\ttabs ", "<|im_start|>user"}) {
    std::string back;
    const kv::Tokens tokens = *text.tokenize(sample, false, true);
    for (const kv::Token t : tokens) back += text.piece(t, true);
    EXPECT_EQ(back, sample);
  }
  EXPECT_TRUE(text.tokenize("", false, true)->empty());
}

TEST_F(LlamaModelTest, ATemplateRendersRolesAndRefusesNonsense) {
  ChatInput input;
  input.messages = R"([{"role":"system","content":"Be brief."},{"role":"user","content":"hi there"}])";
  const auto prompt = model().text().render_chat(input);
  ASSERT_TRUE(prompt.ok()) << prompt.error().message;
  EXPECT_NE(prompt->text.find("Be brief."), std::string::npos);
  EXPECT_NE(prompt->text.find("hi there"), std::string::npos);
  for (const auto* bad : {"[1]", "[{}]", R"([{"role":"user","content":{"a":1}}])", "nonsense"}) {
    input.messages = bad;
    EXPECT_EQ(model().text().render_chat(input).error().status(), 400) << bad;
  }
}

TEST_F(LlamaModelTest, ARequiredToolCallIsConstrainedAndParsed) {
  ChatInput input;
  input.messages = R"([{"role":"user","content":"What is the weather in Paris?"}])";
  input.tools = R"([{"type":"function","function":{"name":"weather","parameters":
      {"type":"object","properties":{"city":{"type":"string","maxLength":12}},"required":["city"]}}}])";
  input.tool_choice = ToolChoice::required;
  const auto prompt = model().text().render_chat(input);
  ASSERT_TRUE(prompt.ok()) << prompt.error().message;
  SamplingParams params;
  params.temperature = 0;
  auto sampler = model().text().make_sampler(params, prompt->syntax.get());
  ASSERT_TRUE(sampler.ok()) << sampler.error().message;
  auto parser = model().text().make_parser(prompt->syntax);

  kv::Tokens tokens = *model().text().tokenize(prompt->text, true, true);
  ASSERT_LE(tokens.size(), 400U);
  kv::Pos at = 0;
  while (tokens.size() > 256) {
    ASSERT_EQ(decode({tokens.begin(), tokens.begin() + 256}, 0, at), DecodeStatus::ok);
    tokens.erase(tokens.begin(), tokens.begin() + 256);
    at += 256;
  }
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(decode(tokens, 0, at), DecodeStatus::ok);
    at += static_cast<kv::Pos>(tokens.size());
    const kv::Token token = (*sampler)->draw(static_cast<std::int32_t>(tokens.size()) - 1).token;
    if (model().port().is_end_of_generation(token)) break;
    parser->feed(model().text().piece(token, model().text().is_visible_special(prompt->syntax.get(), token)));
    tokens = {token};
  }
  parser->finish();
  ASSERT_EQ(parser->message().tool_calls.size(), 1U) << parser->message().content;
  EXPECT_EQ(parser->message().tool_calls[0].name, "weather");
  EXPECT_NE(parser->message().tool_calls[0].arguments.find("\"city\""), std::string::npos);
}

TEST_F(LlamaModelTest, BadGrammarsAndSchemasAreErrors) {
  SamplingParams params;
  const std::string nested = "root ::= " + std::string(60'000, '(') + "\"a\"" + std::string(60'000, ')');
  for (const std::string& bad : {std::string("root ::= ("), std::string("nonsense"), std::string("root ::= root \"a\""),
                                 std::string("other ::= \"a\""), std::string("root ::= missing"), nested}) {
    params.grammar = bad;
    EXPECT_EQ(model().text().make_sampler(params, nullptr).error().status(), 400) << bad.substr(0, 40);
  }
  for (const auto* bad :
       {R"({"type":"nonsense"})", R"({"$ref":"#/definitions/none"})", R"({"minItems":1e9})", "[", "3"}) {
    EXPECT_EQ(model().text().schema_grammar(bad).error().status(), 400) << bad;
  }
  EXPECT_TRUE(model().text().schema_grammar(R"({"type":"object","properties":{"a":{"type":"integer"}}})").ok());
}

TEST_F(LlamaModelTest, AFinishedGrammarEndsTheGeneration) {
  SamplingParams params;
  params.temperature = 0;
  params.grammar = "root ::= \"yes\"";
  auto sampler = *model().text().make_sampler(params, nullptr);
  kv::Tokens tokens = *model().text().tokenize("Is water wet?", false, false);
  std::string out;
  kv::Pos at = 0;
  bool ended = false;
  for (int i = 0; i < 8 && !ended; ++i) {
    ASSERT_EQ(decode(tokens, 0, at), DecodeStatus::ok);
    at += static_cast<kv::Pos>(tokens.size());
    const kv::Token token = sampler->draw(static_cast<std::int32_t>(tokens.size()) - 1).token;
    ended = model().port().is_end_of_generation(token);
    if (!ended) out += model().text().piece(token, false);
    tokens = {token};
  }
  EXPECT_TRUE(ended);
  EXPECT_EQ(out, "yes");
}

TEST_F(LlamaModelTest, LogprobsAreALogSoftmax) {
  SamplingParams params;
  params.temperature = 0;
  params.n_probs = 5;
  auto sampler = *model().text().make_sampler(params, nullptr);
  ASSERT_EQ(decode(*model().text().tokenize("One two three", false, false), 0, 0), DecodeStatus::ok);
  const auto n = static_cast<std::int32_t>(model().text().tokenize("One two three", false, false)->size());
  const Drawn drawn = sampler->draw(n - 1);
  ASSERT_EQ(drawn.alternatives.size(), 5U);
  EXPECT_EQ(drawn.alternatives[0].token, drawn.token);
  EXPECT_FLOAT_EQ(drawn.alternatives[0].logprob, drawn.logprob);
  EXPECT_LE(drawn.logprob, 0.0F);
  for (int i = 1; i < 5; ++i) EXPECT_GE(drawn.alternatives[i - 1].logprob, drawn.alternatives[i].logprob);
}

TEST(LlamaLoad, AFileThatIsNoModelIsABadConfig) {
  const auto dir = std::filesystem::temp_directory_path() / "roost-llama-test";
  std::filesystem::create_directories(dir);
  const auto write = [&](const char* name, const std::string& bytes) {
    std::ofstream(dir / name, std::ios::binary) << bytes;
    return (dir / name).string();
  };
  std::string head;
  {
    std::ifstream in(model_path(), std::ios::binary);
    head.resize(8 << 20);
    in.read(head.data(), static_cast<std::streamsize>(head.size()));
    head.resize(static_cast<std::size_t>(in.gcount()));
  }
  const std::string paths[] = {"",
                               (dir / "missing.gguf").string(),
                               dir.string(),
                               write("empty.gguf", ""),
                               write("text.gguf", "not a model at all"),
                               write("magic.gguf", "GGUF"),
                               write("garbage.gguf", "GGUF" + std::string(1000, '\xFF')),
                               write("truncated.gguf", head)};
  for (const auto& path : paths) {
    LlamaOptions options = small_options();
    options.path = path;
    const auto result = LlamaModel::load(options);
    ASSERT_FALSE(result.ok()) << path;
    EXPECT_EQ(result.error().kind, ErrorKind::bad_config) << path;
  }
  std::filesystem::remove_all(dir);
}

TEST(LlamaLoad, WhatDoesNotFitIsRefusedBeforeLoading) {
  if (!std::filesystem::exists(model_path())) GTEST_SKIP() << "no test model";
  LlamaOptions options = small_options();
  options.available_memory = 64ULL << 20U;
  bool loading = false;
  options.on_progress = [&](float) { loading = true; };
  const auto result = LlamaModel::load(options);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::bad_config);
  EXPECT_FALSE(loading);
  options.available_memory = 0;
  options.parallel = 200;
  options.max_pools = 100;
  EXPECT_NE(LlamaModel::load(options).error().message.find("--parallel"), std::string::npos);
}

}  // namespace
}  // namespace roost::engine
