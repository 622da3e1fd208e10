#include "engine/llama/grammar_check.h"

#include <gtest/gtest.h>

#include <string>

#include "core/limits.h"

namespace roost::engine {
namespace {

TEST(GrammarCheck, OrdinaryGrammarsPass) {
  EXPECT_TRUE(check_grammar("root ::= (\"a\" | \"(((\" [()]+)* # ((((\n").ok());
}

TEST(GrammarCheck, NestingIsBounded) {
  const auto nested = [](std::size_t n) { return "root ::= " + std::string(n, '(') + "\"a\"" + std::string(n, ')'); };
  EXPECT_TRUE(check_grammar(nested(kGrammarNesting)).ok());
  EXPECT_EQ(check_grammar(nested(kGrammarNesting + 1)).error().status(), 400);
  EXPECT_EQ(check_grammar(nested(60'000)).error().status(), 400);
}

TEST(GrammarCheck, WhatStandsInLiteralsAndClassesDoesNotNest) {
  EXPECT_TRUE(check_grammar("root ::= \"" + std::string(1000, '(') + "\" [" + std::string(1000, '(') + "]").ok());
  EXPECT_TRUE(check_grammar("root ::= \"\\\"((((\"").ok());
}

TEST(GrammarCheck, RulesAndBytesAreBounded) {
  std::string many = "root ::= \"a\"\n";
  for (int i = 0; i < 3000; ++i) many += "r" + std::to_string(i) + " ::= \"a\"\n";
  EXPECT_EQ(check_grammar(many).error().status(), 400);
  EXPECT_EQ(check_grammar(std::string(limits::kGrammarBytes + 1, ' ')).error().status(), 400);
  EXPECT_EQ(check_grammar("%llguidance {}").error().status(), 400);
  EXPECT_EQ(check_grammar(std::string("root ::= \"\0\"", 12)).error().status(), 400);
}

TEST(GrammarCheck, SchemasMayNotRecurseOrRepeatWithoutBound) {
  EXPECT_TRUE(check_schema(R"({"type":"string","maxLength":20,"pattern":"^(a|b)$"})", "x").ok());
  EXPECT_EQ(check_schema(R"({"items":[{"pattern":")" + std::string(100, '(') + "\"}]}", "x").error().status(), 400);
  EXPECT_EQ(check_schema(R"({"minItems":100000})", "x").error().status(), 400);
  EXPECT_EQ(check_schema(R"({"maxLength":-1})", "x").error().status(), 400);
  EXPECT_EQ(check_schema("{", "x").error().status(), 400);
}

}  // namespace
}  // namespace roost::engine
