#include "agent/message.h"

#include <gtest/gtest.h>

#include "core/utf8.h"

namespace roost::agent {
namespace {

Message user(std::string text) { return {Role::user, std::move(text), {}, {}, false}; }
Message says(std::string text) { return {Role::assistant, std::move(text), {}, {}, false}; }
Message calls(std::vector<std::string> ids) {
  Message m{Role::assistant, "", {}, {}, false};
  for (auto& id : ids) m.tool_calls.push_back({id, "bash", "{}"});
  return m;
}
Message result(std::string id) { return {Role::tool, "out " + id, {}, id, false}; }

TEST(Message, SurvivesTheLog) {
  Message m = calls({"a", "b"});
  m.tool_calls[0].arguments = "{\"command\":\"echo \\\"x\\\"\"}";
  for (const Message& message : {user("hi \u00e4\n"), says("yes"), m, Message{Role::tool, "boom", {}, "a", true},
                                 Message{Role::system, "be kind", {}, {}, false}, says("")}) {
    const auto back = from_log(to_log(message));
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(*back, message);
  }
}

TEST(Message, OfTheLogMustMakeSense) {
  for (const char* text : {"", "[]", "{}", R"({"role":"king"})", R"({"role":"assistant","tool_calls":[1]})",
                           R"({"role":"assistant","tool_calls":[{"id":"x"}]})"}) {
    EXPECT_FALSE(from_log(text).ok()) << text;
  }
}

TEST(Message, IsSentInOpenAisShape) {
  EXPECT_EQ(json::serialize(to_openai(calls({"a"}))),
            R"({"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function",)"
            R"("function":{"name":"bash","arguments":"{}"}}]})");
  EXPECT_EQ(json::serialize(to_openai(result("a"))), R"({"role":"tool","content":"out a","tool_call_id":"a"})");
}

TEST(Repair, LeavesAWholeHistoryAsItIs) {
  const std::vector<Message> whole{user("1"), calls({"a", "b"}), result("a"), result("b"),
                                   says("2"), user("3"),         says("")};
  EXPECT_EQ(repaired(whole), whole);
  EXPECT_TRUE(repaired({}).empty());
}

TEST(Repair, GivesADanglingCallAResultThatSaysSo) {
  const auto out = repaired({user("1"), calls({"a", "b"}), result("b")});
  ASSERT_EQ(out.size(), 4U);
  EXPECT_EQ(out[2].tool_call_id, "a");
  EXPECT_TRUE(out[2].is_error);
  EXPECT_EQ(out[3], result("b"));
  EXPECT_EQ(repaired(out), out);
}

TEST(Repair, LeavesOutUnansweredPromptsAndResultsWithoutACall) {
  EXPECT_EQ(repaired({user("1"), says("x"), user("lost"), user("2"), says("y"), user("lost too")}),
            (std::vector<Message>{user("1"), says("x"), user("2"), says("y")}));
  EXPECT_EQ(repaired({result("z"), user("1"), says("x"), result("q")}), (std::vector<Message>{user("1"), says("x")}));
}

// Whatever a turn leaves when it is cut off after any of its entries, the next turn can load it.
TEST(Repair, AcceptsAHistoryCutAnywhere) {
  const std::vector<Message> whole{user("1"),    calls({"a", "b"}), result("a"), result("b"),
                                   calls({"c"}), result("c"),       says("done")};
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    const auto out = repaired({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(cut)});
    std::vector<std::string> open;
    for (const Message& m : out) {
      if (m.role == Role::tool) {
        ASSERT_FALSE(open.empty()) << cut;
        EXPECT_EQ(m.tool_call_id, open.front()) << cut;
        open.erase(open.begin());
        continue;
      }
      EXPECT_TRUE(open.empty()) << cut;
      for (const ToolCall& call : m.tool_calls) open.push_back(call.id);
    }
    EXPECT_TRUE(open.empty()) << cut;
    EXPECT_TRUE(out.empty() || out.back().role != Role::user) << cut;
  }
}

TEST(Utf8, InvalidBytesAreReplacedAndValidTextIsKept) {
  const std::string valid = "a\u00e4\u20ac\U0001F600";
  EXPECT_EQ(to_valid_utf8(valid), valid);
  EXPECT_EQ(to_valid_utf8("\xff\x41"), "\uFFFD\x41");
  EXPECT_EQ(to_valid_utf8("\xc0\xaf"), "\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(to_valid_utf8("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");  // surrogate
  EXPECT_EQ(to_valid_utf8("\xe2\x82"), "\uFFFD");                  // cut
}

TEST(Utf8, CutsBetweenCharacters) {
  const std::string text = "a\u20acb";
  EXPECT_EQ(utf8_prefix(text, 3), "a");
  EXPECT_EQ(utf8_prefix(text, 4), "a\u20ac");
  EXPECT_EQ(utf8_prefix(text, 99), text);
  EXPECT_EQ(utf8_suffix(text, 3), "b");
  EXPECT_EQ(utf8_suffix(text, 4), "\u20acb");
}

}  // namespace
}  // namespace roost::agent
