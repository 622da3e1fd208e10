#include "engine/llama/llama_text.h"

#include <chat.h>
#include <fmt/format.h>
#include <json-schema-to-grammar.h>
#include <llama.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <utility>

#include "engine/llama/grammar_check.h"
#include "engine/llama/llama_chat.h"
#include "engine/llama/llama_sampler.h"

namespace roost::engine {
namespace {

std::string vocab_type_name(const llama_vocab* vocab) {
  switch (llama_vocab_type(vocab)) {
    case LLAMA_VOCAB_TYPE_SPM:
      return "spm";
    case LLAMA_VOCAB_TYPE_BPE:
      return "bpe";
    case LLAMA_VOCAB_TYPE_WPM:
      return "wpm";
    case LLAMA_VOCAB_TYPE_UGM:
      return "ugm";
    case LLAMA_VOCAB_TYPE_RWKV:
      return "rwkv";
    case LLAMA_VOCAB_TYPE_PLAMO2:
      return "plamo2";
    default:
      return "other";
  }
}

std::string token_text(const llama_vocab* vocab, llama_token token) {
  if (token == LLAMA_TOKEN_NULL) return {};
  const char* text = llama_vocab_get_text(vocab, token);
  return text == nullptr ? std::string{} : std::string(text);
}

Error invalid(std::string message) { return {ErrorKind::invalid_request, std::move(message), {}, {}}; }

Result<std::string> read_template(const std::string& path) {
  if (path.empty()) return std::string{};
  std::ifstream in(path, std::ios::binary);
  if (!in) return {ErrorKind::bad_config, fmt::format("--chat-template-file: {} cannot be read", path)};
  return std::string(std::istreambuf_iterator<char>(in), {});
}

class LlamaText final : public TextModel {
 public:
  LlamaText(llama_model* model, llama_context* context, const LlamaTextOptions& options,
            common_chat_templates_ptr templates)
      : model_(model), context_(context), vocab_(llama_model_get_vocab(model)), templates_(std::move(templates)) {
    const std::int32_t n = llama_vocab_n_tokens(vocab_);
    for (kv::Token t = 0; t < n; ++t) {
      if (llama_vocab_is_eog(vocab_, t)) end_tokens_.push_back(t);
    }
    describe(options);
  }

  const ModelInfo& info() const override { return info_; }

  Result<kv::Tokens> tokenize(std::string_view text, bool add_special, bool parse_special) const override {
    if (text.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max() / 2)) {
      return invalid("the text is too long to tokenize");
    }
    const auto length = static_cast<std::int32_t>(text.size());
    try {
      kv::Tokens tokens(text.size() / 3 + 16);
      std::int32_t n = llama_tokenize(vocab_, text.data(), length, tokens.data(),
                                      static_cast<std::int32_t>(tokens.size()), add_special, parse_special);
      if (n == std::numeric_limits<std::int32_t>::min()) return invalid("the text is too long to tokenize");
      if (n < 0) {
        tokens.resize(static_cast<std::size_t>(-n));
        n = llama_tokenize(vocab_, text.data(), length, tokens.data(), -n, add_special, parse_special);
      }
      tokens.resize(static_cast<std::size_t>(std::max(n, 0)));
      return tokens;
    } catch (const std::exception& e) {
      return invalid(fmt::format("the text cannot be tokenized: {}", e.what()));
    }
  }

  std::string piece(kv::Token token, bool special) const override {
    std::array<char, 128> buffer{};
    const std::int32_t n = llama_token_to_piece(vocab_, token, buffer.data(), buffer.size(), 0, special);
    if (n >= 0) return {buffer.data(), static_cast<std::size_t>(n)};
    std::string text(static_cast<std::size_t>(-n), '\0');
    llama_token_to_piece(vocab_, token, text.data(), -n, 0, special);
    return text;
  }

  bool is_end_of_generation(kv::Token token) const override { return llama_vocab_is_eog(vocab_, token); }

  Result<ChatPrompt> render_chat(const ChatInput& input) const override {
    return roost::engine::render_chat(templates_.get(), vocab_, input);
  }

  Result<std::string> schema_grammar(const std::string& json_schema) const override {
    ROOST_TRY_VOID(check_schema(json_schema, "the JSON schema"));
    try {
      return json_schema_to_grammar(common_json::parse(json_schema));
    } catch (const std::exception& e) {
      return invalid(fmt::format("the JSON schema is not usable: {}", e.what()));
    }
  }

  std::unique_ptr<ChatParser> make_parser(std::shared_ptr<const ChatSyntax> syntax) const override {
    return make_llama_chat_parser(std::move(syntax));
  }

  Result<std::unique_ptr<Sampler>> make_sampler(const SamplingParams& params, const ChatSyntax* syntax) const override {
    return make_llama_sampler(model_, context_, end_tokens_, params, template_grammar(syntax));
  }

  bool is_visible_special(const ChatSyntax* syntax, kv::Token token) const override {
    return is_preserved_token(syntax, token);
  }

 private:
  void describe(const LlamaTextOptions& options) {
    std::array<char, 256> text{};
    llama_model_desc(model_, text.data(), text.size());
    info_.name = options.alias.empty() ? std::filesystem::path(options.path).filename().string() : options.alias;
    info_.path = options.path;
    info_.description = text.data();
    info_.vocab_type = vocab_type_name(vocab_);
    info_.vocabulary_size = llama_vocab_n_tokens(vocab_);
    info_.training_length = llama_model_n_ctx_train(model_);
    info_.embedding_length = llama_model_n_embd(model_);
    for (kv::Token t = 0; t < info_.vocabulary_size; ++t) {
      const auto bytes = static_cast<std::int32_t>(piece(t, true).size());
      info_.longest_piece_bytes = std::max(info_.longest_piece_bytes, bytes);
    }
    info_.parameters = llama_model_n_params(model_);
    info_.size_bytes = llama_model_size(model_);
    info_.swa_window = llama_model_n_swa(model_);
    info_.recurrent = llama_model_is_recurrent(model_) || llama_model_is_hybrid(model_);
    info_.chat_template = common_chat_templates_source(templates_.get());
    info_.bos_token = token_text(vocab_, llama_vocab_bos(vocab_));
    info_.eos_token = token_text(vocab_, llama_vocab_eos(vocab_));
    info_.template_caps = common_chat_templates_get_caps(templates_.get());
  }

  llama_model* model_;
  llama_context* context_;
  const llama_vocab* vocab_;
  common_chat_templates_ptr templates_;
  std::vector<kv::Token> end_tokens_;
  ModelInfo info_;
};

}  // namespace

Result<std::unique_ptr<TextModel>> make_llama_text(llama_model* model, llama_context* context,
                                                   const LlamaTextOptions& options) {
  ROOST_TRY(source, read_template(options.chat_template_file));
  try {
    common_chat_templates_ptr templates = common_chat_templates_init(model, source);
    std::unique_ptr<TextModel> made = std::make_unique<LlamaText>(model, context, options, std::move(templates));
    return made;
  } catch (const std::exception& e) {
    return {ErrorKind::bad_config, fmt::format("the chat template is not usable: {}", e.what())};
  }
}

}  // namespace roost::engine
