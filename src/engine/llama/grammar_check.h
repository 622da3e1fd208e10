// Bounds on grammars and schemas, checked before libllama and libcommon see them: their parsers recurse by nesting and
// by chains of rules, and a request must not reach the end of a thread's stack. Pure.
#pragma once

#include <cstddef>
#include <string_view>

#include "core/json.h"
#include "core/result.h"

namespace roost::engine {

inline constexpr std::size_t kGrammarNesting = 64;  // parentheses inside one another
inline constexpr std::size_t kGrammarRules = 2048;  // named rules and groups together
inline constexpr std::size_t kPatternNesting = 32;  // parentheses of a regular expression in a schema
inline constexpr std::size_t kPatternBytes = 1024;
inline constexpr std::int64_t kSchemaRepeat = 1000;  // minItems, maxLength and the like

// A GBNF text: size, nesting, number of rules. Its syntax is libllama's affair.
Result<void> check_grammar(std::string_view gbnf);

// A JSON schema, or anything that holds schemas (a list of tools): size, and what recurses in it. `what` names it in
// errors.
Result<void> check_schema(std::string_view json_text, std::string_view what);

}  // namespace roost::engine
