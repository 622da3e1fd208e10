#include "engine/llama/llama_chat.h"

#include <chat-peg-parser.h>
#include <chat.h>
#include <fmt/format.h>
#include <json-schema-to-grammar.h>

#include <set>
#include <utility>

#include "core/ids.h"
#include "core/json.h"
#include "core/limits.h"
#include "engine/llama/grammar_check.h"
#include "engine/llama/tool_prompt.h"

namespace roost::engine {
namespace {

class LlamaSyntax final : public ChatSyntax {
 public:
  TemplateGrammar grammar;
  std::set<llama_token> preserved;
  common_chat_parser_params parser;
  bool plain = true;  // the text is the content
};

const LlamaSyntax* as_llama(const ChatSyntax* syntax) { return static_cast<const LlamaSyntax*>(syntax); }

// Everything but the tools.
common_chat_templates_inputs plain_inputs(const ChatInput& input, const std::string& messages) {
  common_chat_templates_inputs common;
  common.messages = common_chat_msgs_parse_oaicompat(common_json::parse(messages));
  common.tool_choice = COMMON_CHAT_TOOL_CHOICE_NONE;
  common.parallel_tool_calls = input.parallel_tool_calls;
  common.json_schema = input.json_schema;
  common.add_generation_prompt = input.add_generation_prompt;
  common.use_jinja = true;
  common.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
  for (const auto& [name, value] : input.template_kwargs) {
    common.chat_template_kwargs[name] = value;
    if (name == "enable_thinking") common.enable_thinking = value != "false";
  }
  return common;
}

common_chat_tool_choice to_common(ToolChoice choice) {
  switch (choice) {
    case ToolChoice::automatic:
      return COMMON_CHAT_TOOL_CHOICE_AUTO;
    case ToolChoice::none:
      return COMMON_CHAT_TOOL_CHOICE_NONE;
    case ToolChoice::required:
      break;
  }
  return COMMON_CHAT_TOOL_CHOICE_REQUIRED;
}

// The tools that may be called.
json::array callable_tools(const ChatInput& input, const json::array& tools) {
  if (input.only_tool.empty()) return tools;
  json::array one;
  for (const auto& tool : tools) {
    if (tool.at("function").at("name") == input.only_tool.c_str()) one.push_back(tool);
  }
  return one;
}

bool wants_calls(const ChatInput& input) { return !input.tools.empty() && input.tool_choice != ToolChoice::none; }

// The template knows tools: it decides how they are shown, called and parsed. Where one tool alone may be called the
// prompt still shows all, so that it shares its prefix with the conversation's other turns.
common_chat_params native_params(const common_chat_templates* templates, const ChatInput& input,
                                 const json::array& tools) {
  common_chat_templates_inputs common = plain_inputs(input, input.messages);
  if (!input.tools.empty()) common.tools = common_chat_tools_parse_oaicompat(common_json::parse(input.tools));
  common.tool_choice = to_common(input.tool_choice);
  common_chat_params params = common_chat_templates_apply(templates, common);
  if (input.only_tool.empty() || !wants_calls(input)) return params;
  std::string prompt = std::move(params.prompt);
  common.tools = common_chat_tools_parse_oaicompat(common_json::parse(json::serialize(callable_tools(input, tools))));
  params = common_chat_templates_apply(templates, common);
  params.prompt = std::move(prompt);
  return params;
}

// The template knows none: the prompt describes them, and a parser and grammar of our own read the calls.
common_chat_params described_params(const common_chat_templates* templates, const ChatInput& input,
                                    const json::array& messages, const json::array& tools) {
  const std::string plain = json::serialize(describe_tools(messages, tools));
  common_chat_params params = common_chat_templates_apply(templates, plain_inputs(input, plain));
  if (!wants_calls(input) || !input.json_schema.empty()) return params;

  const common_json callable = common_json::parse(json::serialize(callable_tools(input, tools)));
  const bool required = input.tool_choice == ToolChoice::required;
  const std::string open(kToolCallOpen), close(kToolCallClose);
  const common_peg_arena parser = build_chat_peg_parser([&](common_chat_peg_builder& p) {
    auto calls = p.standard_json_tools(open, close, callable, false, true);
    if (input.parallel_tool_calls) calls = p.one_or_more(calls + p.space());
    if (required) return calls + p.end();
    return p.optional(p.content(p.until(open))) + p.optional(calls) + p.end();
  });
  params.format = COMMON_CHAT_FORMAT_PEG_NATIVE;
  params.parser = parser.save();
  params.generation_prompt.clear();
  params.grammar_lazy = !required;
  params.grammar =
      build_grammar([&](const common_grammar_builder& builder) { parser.build_grammar(builder, params.grammar_lazy); });
  params.grammar_triggers.clear();
  if (params.grammar_lazy)
    params.grammar_triggers.push_back({COMMON_GRAMMAR_TRIGGER_TYPE_WORD, open, LLAMA_TOKEN_NULL});
  params.preserved_tokens.push_back(open);
  params.preserved_tokens.push_back(close);
  return params;
}

bool template_knows_calls(const common_chat_templates* templates) {
  const auto caps = common_chat_templates_get_caps(templates);
  const auto it = caps.find("supports_tool_calls");
  return it != caps.end() && it->second;
}

Result<common_chat_params> apply(const common_chat_templates* templates, const ChatInput& input) {
  if (!input.json_schema.empty()) ROOST_TRY_VOID(check_schema(input.json_schema, "the JSON schema"));
  json::array tools;
  if (!input.tools.empty()) {
    ROOST_TRY_VOID(check_schema(input.tools, "'tools'"));
    ROOST_TRY(parsed, parse_json(input.tools));
    tools = std::move(parsed.as_array());
  }
  ROOST_TRY(parsed, parse_json(input.messages));
  const json::array& messages = parsed.as_array();
  const bool tools_in_play = !tools.empty() || mentions_tools(messages);
  if (tools_in_play && !template_knows_calls(templates)) return described_params(templates, input, messages, tools);
  return native_params(templates, input, tools);
}

// A trigger word that is one token of the vocabulary triggers by the token.
common_grammar_trigger resolve_trigger(const llama_vocab* vocab, const common_grammar_trigger& trigger,
                                       const std::set<llama_token>& preserved) {
  if (trigger.type != COMMON_GRAMMAR_TRIGGER_TYPE_WORD) return trigger;
  const auto tokens = common_tokenize(vocab, trigger.value, false, true);
  if (tokens.size() != 1 || !preserved.contains(tokens.front())) return trigger;
  return {COMMON_GRAMMAR_TRIGGER_TYPE_TOKEN, trigger.value, tokens.front()};
}

std::shared_ptr<const ChatSyntax> make_syntax(const llama_vocab* vocab, const common_chat_params& params,
                                              const ChatInput& input) {
  auto syntax = std::make_shared<LlamaSyntax>();
  for (const std::string& word : params.preserved_tokens) {
    const auto tokens = common_tokenize(vocab, word, false, true);
    if (tokens.size() == 1) syntax->preserved.insert(tokens.front());
  }
  syntax->grammar.grammar = params.grammar;
  syntax->grammar.lazy = params.grammar_lazy;
  syntax->grammar.generation_prompt = params.generation_prompt;
  for (const auto& trigger : params.grammar_triggers) {
    syntax->grammar.triggers.push_back(resolve_trigger(vocab, trigger, syntax->preserved));
  }
  // With a schema the grammar also takes an answer in a code fence; only the parser knows what of it is the content.
  syntax->plain = !wants_calls(input) && !params.supports_thinking && input.json_schema.empty();
  syntax->parser = common_chat_parser_params(params);
  syntax->parser.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
  syntax->parser.parse_tool_calls = wants_calls(input);
  if (!syntax->plain && !params.parser.empty()) syntax->parser.parser.load(params.parser);
  return syntax;
}

// The text is the content.
class PlainParser final : public ChatParser {
 public:
  std::vector<ChatDelta> feed(std::string_view text) override {
    if (text.empty()) return {};
    message_.content += text;
    ChatDelta delta;
    delta.content = text;
    return {delta};
  }
  std::vector<ChatDelta> finish() override { return {}; }
  const ChatMessage& message() const override { return message_; }

 private:
  ChatMessage message_;
};

// Parses all of the output at each step and tells what is new. What could still change is held back: white space at the
// end of the content (libcommon trims it before a tool call) and a call's header until its arguments begin (its name
// may grow).
class SyntaxParser final : public ChatParser {
 public:
  explicit SyntaxParser(std::shared_ptr<const LlamaSyntax> syntax) : syntax_(std::move(syntax)) {}

  std::vector<ChatDelta> feed(std::string_view text) override {
    output_ += text;
    return step(true);
  }
  std::vector<ChatDelta> finish() override { return step(false); }
  const ChatMessage& message() const override { return sent_; }

 private:
  std::vector<ChatDelta> step(bool partial) {
    std::vector<ChatDelta> deltas;
    try {
      const common_chat_msg now = common_chat_parse(output_, partial, syntax_->parser);
      grow(sent_.reasoning, now.reasoning_content, false, &ChatDelta::reasoning, deltas);
      grow(sent_.content, now.content, partial, &ChatDelta::content, deltas);
      add_calls(now, partial, deltas);
    } catch (const std::exception&) {
      // Not (yet) in the syntax. At the end of a message of which nothing was sent, the raw text is the best answer.
      if (!partial && sent_.content.empty() && sent_.reasoning.empty() && sent_.tool_calls.empty()) {
        grow(sent_.content, output_, false, &ChatDelta::content, deltas);
      }
    }
    return deltas;
  }

  static void grow(std::string& sent, std::string_view now, bool hold_space, std::string ChatDelta::*member,
                   std::vector<ChatDelta>& deltas) {
    if (hold_space) {
      const auto last = now.find_last_not_of(" \t\r\n");
      now = last == std::string_view::npos ? std::string_view{} : now.substr(0, last + 1);
    }
    if (now.size() <= sent.size() || now.substr(0, sent.size()) != sent) return;
    ChatDelta delta;
    delta.*member = now.substr(sent.size());
    sent = now;
    deltas.push_back(std::move(delta));
  }

  void add_calls(const common_chat_msg& now, bool partial, std::vector<ChatDelta>& deltas) {
    for (std::size_t i = 0; i < now.tool_calls.size() && i < limits::kToolCallsPerReply; ++i) {
      const common_chat_tool_call& call = now.tool_calls[i];
      const bool last = i + 1 == now.tool_calls.size();
      const bool is_new = i >= sent_.tool_calls.size();
      if (is_new && partial && last && call.arguments.empty()) return;
      if (is_new && call.name.empty()) return;
      ChatDelta delta;
      delta.tool_index = static_cast<std::int32_t>(i);
      if (is_new) {
        sent_.tool_calls.push_back({call.id.empty() ? "call_" + random_hex(12) : call.id, call.name, {}});
        delta.tool_call.id = sent_.tool_calls[i].id;
        delta.tool_call.name = call.name;
      }
      std::string& sent = sent_.tool_calls[i].arguments;
      if (call.arguments.size() > sent.size() && call.arguments.compare(0, sent.size(), sent) == 0) {
        delta.tool_call.arguments = call.arguments.substr(sent.size());
        sent = call.arguments;
      }
      if (is_new || !delta.tool_call.arguments.empty()) deltas.push_back(std::move(delta));
    }
  }

  std::shared_ptr<const LlamaSyntax> syntax_;
  std::string output_;
  ChatMessage sent_;
};

}  // namespace

Result<ChatPrompt> render_chat(const common_chat_templates* templates, const llama_vocab* vocab,
                               const ChatInput& input) {
  try {
    ROOST_TRY(params, apply(templates, input));
    return ChatPrompt{params.prompt, params.additional_stops, make_syntax(vocab, params, input)};
  } catch (const std::exception& e) {
    return {ErrorKind::invalid_request, fmt::format("the chat template does not take this conversation: {}", e.what())};
  }
}

std::unique_ptr<ChatParser> make_llama_chat_parser(std::shared_ptr<const ChatSyntax> syntax) {
  const LlamaSyntax* llama = as_llama(syntax.get());
  if (llama == nullptr || llama->plain) return std::make_unique<PlainParser>();
  return std::make_unique<SyntaxParser>(std::static_pointer_cast<const LlamaSyntax>(std::move(syntax)));
}

const TemplateGrammar* template_grammar(const ChatSyntax* syntax) {
  return syntax == nullptr ? nullptr : &as_llama(syntax)->grammar;
}

bool is_preserved_token(const ChatSyntax* syntax, kv::Token token) {
  return syntax != nullptr && as_llama(syntax)->preserved.contains(token);
}

}  // namespace roost::engine
