#include "engine/llama/grammar_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/limits.h"

namespace roost::engine {
namespace {

Error invalid(std::string message) { return {ErrorKind::invalid_request, std::move(message), {}, {}}; }

// Walks a GBNF text, skipping what stands in literals, character classes and comments.
struct GrammarScan {
  std::size_t depth = 0, deepest = 0, rules = 0;

  void run(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      switch (text[i]) {
        case '"':
          i = skip_until(text, i + 1, '"');
          break;
        case '[':
          i = skip_until(text, i + 1, ']');
          break;
        case '#':
          i = std::min(text.find('\n', i), text.size());
          break;
        case '(':
          ++rules;
          deepest = std::max(deepest, ++depth);
          break;
        case ')':
          if (depth > 0) --depth;
          break;
        // A repetition makes a rule of its own; '=' stands in each definition.
        case '*':
        case '+':
        case '?':
        case '{':
        case '=':
          ++rules;
          break;
        default:
          break;
      }
    }
  }

  static std::size_t skip_until(std::string_view text, std::size_t i, char end) {
    for (; i < text.size() && text[i] != end; ++i) {
      if (text[i] == '\\') ++i;
    }
    return i;
  }
};

Result<void> check_pattern(std::string_view pattern, std::string_view what) {
  if (pattern.size() > kPatternBytes) {
    return invalid(fmt::format("a 'pattern' in {} has {} bytes, at most {}", what, pattern.size(), kPatternBytes));
  }
  if (static_cast<std::size_t>(std::ranges::count(pattern, '(')) > kPatternNesting) {
    return invalid(fmt::format("a 'pattern' in {} has more than {} groups", what, kPatternNesting));
  }
  return {};
}

bool is_repeat_key(std::string_view key) {
  return key == "minItems" || key == "maxItems" || key == "minLength" || key == "maxLength";
}

Result<void> check_repeat(std::string_view key, const json::value& value, std::string_view what) {
  const double n = value.to_number<double>();
  if (n < 0 || n > static_cast<double>(kSchemaRepeat)) {
    return invalid(
        fmt::format("'{}' in {} is {}, must be from 0 to {}", key, what, json::serialize(value), kSchemaRepeat));
  }
  return {};
}

// Recursion is bounded by the depth that the JSON parser allows.
Result<void> walk(const json::value& value, std::string_view what) {
  if (const auto* array = value.if_array()) {
    for (const auto& v : *array) ROOST_TRY_VOID(walk(v, what));
  } else if (const auto* object = value.if_object()) {
    for (const auto& member : *object) {
      const std::string_view key = member.key();
      if (key == "pattern" && member.value().is_string()) {
        ROOST_TRY_VOID(check_pattern(member.value().get_string(), what));
      } else if (is_repeat_key(key) && member.value().is_number()) {
        ROOST_TRY_VOID(check_repeat(key, member.value(), what));
      }
      ROOST_TRY_VOID(walk(member.value(), what));
    }
  }
  return {};
}

}  // namespace

Result<void> check_grammar(std::string_view gbnf) {
  if (gbnf.size() > limits::kGrammarBytes) {
    return invalid(fmt::format("'grammar' has {} bytes, at most {}", gbnf.size(), limits::kGrammarBytes));
  }
  if (gbnf.find('\0') != std::string_view::npos) return invalid("'grammar' holds a zero byte");
  if (gbnf.substr(0, 11) == "%llguidance") return invalid("'grammar' must be GBNF; llguidance is not built in");
  GrammarScan scan;
  scan.run(gbnf);
  if (scan.deepest > kGrammarNesting) {
    return invalid(fmt::format("'grammar' nests {} groups, at most {}", scan.deepest, kGrammarNesting));
  }
  if (scan.rules > kGrammarRules) {
    return invalid(
        fmt::format("'grammar' has {} rules, groups and repetitions, at most {}", scan.rules, kGrammarRules));
  }
  return {};
}

Result<void> check_schema(std::string_view json_text, std::string_view what) {
  if (json_text.size() > limits::kGrammarBytes) {
    return invalid(fmt::format("{} has {} bytes, at most {}", what, json_text.size(), limits::kGrammarBytes));
  }
  ROOST_TRY(value, parse_json(json_text));
  return walk(value, what);
}

}  // namespace roost::engine
