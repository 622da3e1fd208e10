// A TextModel for tests: one token per byte, "<|x|>" template, the fake engine's sampler.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/json.h"
#include "engine/fake_model.h"
#include "engine/text_model.h"

namespace roost::api {

class FakeText final : public engine::TextModel {
 public:
  explicit FakeText(const engine::FakeModel& model) : model_(model) {
    info_.name = "fake";
    info_.vocabulary_size = model.vocabulary_size();
    info_.training_length = 1 << 20;
    info_.longest_piece_bytes = 8;
  }

  const engine::ModelInfo& info() const override { return info_; }
  Result<kv::Tokens> tokenize(std::string_view text, bool, bool) const override {
    kv::Tokens tokens;
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  // Bytes as they are, so that most drawn tokens are no valid UTF-8; above them readable words.
  std::string piece(kv::Token token, bool) const override {
    return token < 256 ? std::string(1, static_cast<char>(token)) : "w" + std::to_string(token) + " ";
  }
  bool is_end_of_generation(kv::Token token) const override { return model_.is_end_of_generation(token); }

  Result<engine::ChatPrompt> render_chat(const engine::ChatInput& input) const override {
    ROOST_TRY(parsed, parse(input.messages));
    if (input.add_generation_prompt) parsed += "<|assistant|>";
    return engine::ChatPrompt{std::move(parsed), {}, nullptr};
  }
  Result<std::string> schema_grammar(const std::string&) const override { return std::string("root ::= \"x\""); }
  std::unique_ptr<engine::ChatParser> make_parser(std::shared_ptr<const engine::ChatSyntax>) const override {
    return std::make_unique<Parser>();
  }
  Result<std::unique_ptr<engine::Sampler>> make_sampler(const engine::SamplingParams& params,
                                                        const engine::ChatSyntax*) const override {
    if (params.grammar == "bad") return {ErrorKind::invalid_request, "the grammar is not usable"};
    std::unique_ptr<engine::Sampler> sampler = std::make_unique<engine::FakeSampler>(model_);
    return sampler;
  }
  bool is_visible_special(const engine::ChatSyntax*, kv::Token) const override { return false; }

 private:
  class Parser final : public engine::ChatParser {
   public:
    std::vector<engine::ChatDelta> feed(std::string_view text) override {
      message_.content += text;
      engine::ChatDelta delta;
      delta.content = text;
      return {delta};
    }
    std::vector<engine::ChatDelta> finish() override { return {}; }
    const engine::ChatMessage& message() const override { return message_; }

   private:
    engine::ChatMessage message_;
  };

  static Result<std::string> parse(const std::string& messages) {
    ROOST_TRY(value, parse_json(messages));
    std::string text;
    for (const auto& m : value.as_array()) {
      const std::string role(m.at("role").as_string());
      if (role == "refused") return {ErrorKind::invalid_request, "the template does not take this role"};
      text += "<|" + role + "|>";
      const auto* content = m.as_object().if_contains("content");
      if (content != nullptr && content->is_string()) text += std::string(content->as_string());
    }
    return text;
  }

  const engine::FakeModel& model_;
  engine::ModelInfo info_;
};

}  // namespace roost::api
