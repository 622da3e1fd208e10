#include "engine/llama/tool_prompt.h"

#include <gtest/gtest.h>

namespace roost::engine {
namespace {

json::array parse(std::string_view text) { return json::parse(text).as_array(); }

const json::array kTools = parse(R"([{"type":"function","function":{"name":"f"}}])");

TEST(ToolPrompt, ToolsAreAddedToTheSystemMessageThatIsThere) {
  const json::array out =
      describe_tools(parse(R"([{"role":"system","content":"Be kind."},{"role":"user","content":"hi"}])"), kTools);
  ASSERT_EQ(out.size(), 2U);
  const std::string system(out[0].at("content").as_string());
  EXPECT_TRUE(system.starts_with("Be kind."));
  EXPECT_NE(system.find(R"("name":"f")"), std::string::npos);
  EXPECT_EQ(out[1].at("content").as_string(), "hi");
}

TEST(ToolPrompt, WithoutASystemMessageOneIsMade) {
  const json::array out = describe_tools(parse(R"([{"role":"user","content":"hi"}])"), kTools);
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].at("role").as_string(), "system");
}

TEST(ToolPrompt, CallsAndResultsBecomeOrdinaryMessages) {
  const json::array history = parse(R"([
      {"role":"user","content":"go"},
      {"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]},
      {"role":"tool","tool_call_id":"1","content":"done"},
      {"role":"user","content":[{"type":"text","text":"and "},{"type":"text","text":"now?"}]}])");
  EXPECT_TRUE(mentions_tools(history));
  const json::array out = describe_tools(history, {});
  ASSERT_EQ(out.size(), 3U);
  EXPECT_EQ(out[1].at("content").as_string(), "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\":1}}\n</tool_call>");
  EXPECT_EQ(out[2].at("role").as_string(), "user");
  EXPECT_EQ(out[2].at("content").as_string(), "<tool_response>\ndone\n</tool_response>\nand now?");
}

TEST(ToolPrompt, AnOrdinaryConversationMentionsNone) {
  EXPECT_FALSE(mentions_tools(parse(R"([{"role":"user","content":"hi"}])")));
}

}  // namespace
}  // namespace roost::engine
