#include "agent/turn_request.h"

#include <gtest/gtest.h>

namespace roost::agent {
namespace {

TEST(TurnRequest, ReadsEveryField) {
  const auto r = parse_turn_request(
      R"({"prompt":"p","sessionId":"s~1","system":"y","tools":["ls","bash"],"model":"m","maxTurns":3,"poolId":0,)"
      R"("toolChoice":{"name":"bash"},"maxTokens":9,"temperature":0.5,"seed":4,"unknown":[1]})",
      " s~1 ");
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_EQ(r->prompt, "p");
  EXPECT_EQ(r->session_id, "s~1");
  EXPECT_EQ(r->system, "y");
  ASSERT_EQ(r->tools.size(), 2U);
  EXPECT_EQ(r->tools[0].name, "bash");  // the registry's order
  EXPECT_EQ(r->tools[1].name, "ls");
  EXPECT_EQ(r->max_turns, 3);
  EXPECT_EQ(r->pool_id, 0);
  ASSERT_TRUE(r->tool_choice);
  EXPECT_EQ(r->tool_choice->mode, ToolChoice::Mode::named);
  EXPECT_EQ(r->max_tokens, 9);
  EXPECT_EQ(r->temperature, 0.5);
  EXPECT_EQ(r->seed, 4);
}

TEST(TurnRequest, OffersAllToolsUnlessTold) {
  EXPECT_EQ(parse_turn_request(R"({"prompt":"p"})", "")->tools.size(), 4U);
  EXPECT_TRUE(parse_turn_request(R"({"prompt":"p","tools":[]})", "")->tools.empty());
}

TEST(TurnRequest, AToolMayComeWithANarrowerSchema) {
  const auto r = parse_turn_request(
      R"({"prompt":"p","tools":["read",{"name":"bash","description":"d","parameters":{"type":"object"}}]})", "");
  ASSERT_TRUE(r.ok());
  EXPECT_EQ(r->tools[0].description, "d");
  EXPECT_EQ(json::serialize(r->tools[0].parameters), R"({"type":"object"})");
}

struct Bad {
  const char* body;
  ErrorKind kind;
  const char* names;  // part of the message
};

TEST(TurnRequest, RefusesBadInputNamingTheField) {
  const Bad cases[] = {
      {"", ErrorKind::invalid_json, "JSON"},
      {"[]", ErrorKind::invalid_json, "object"},
      {"{\"prompt\":\"x\"", ErrorKind::invalid_json, "JSON"},
      {"{}", ErrorKind::prompt_required, "prompt"},
      {R"({"prompt":" \n"})", ErrorKind::prompt_required, "prompt"},
      {R"({"prompt":null})", ErrorKind::prompt_required, "prompt"},
      {R"({"prompt":7})", ErrorKind::invalid_request, "'prompt'"},
      {R"({"prompt":"p","sessionId":"a b"})", ErrorKind::invalid_request, "'sessionId'"},
      {R"({"prompt":"p","sessionId":""})", ErrorKind::invalid_request, "'sessionId'"},
      {R"({"prompt":"p","sessionId":"other"})", ErrorKind::session_mismatch, "X-SH-Session-Id"},
      {R"({"prompt":"p","system":1})", ErrorKind::invalid_request, "'system'"},
      {R"({"prompt":"p","tools":"bash"})", ErrorKind::invalid_request, "'tools'"},
      {R"({"prompt":"p","tools":[1]})", ErrorKind::invalid_request, "tools[0]"},
      {R"({"prompt":"p","tools":["bash","bash"]})", ErrorKind::invalid_request, "twice"},
      {R"({"prompt":"p","tools":["edit"]})", ErrorKind::invalid_request, "known: bash, read, write, ls"},
      {R"({"prompt":"p","tools":[{"name":"bash","parameters":[]}]})", ErrorKind::invalid_request,
       "tools[0].parameters"},
      {R"({"prompt":"p","toolChoice":"must"})", ErrorKind::invalid_request, "'toolChoice'"},
      {R"({"prompt":"p","toolChoice":{}})", ErrorKind::invalid_request, "'toolChoice.name'"},
      {R"({"prompt":"p","tools":["ls"],"toolChoice":{"name":"bash"}})", ErrorKind::invalid_request,
       "'toolChoice.name'"},
      {R"({"prompt":"p","tools":[],"toolChoice":"required"})", ErrorKind::invalid_request, "'toolChoice'"},
      {R"({"prompt":"p","maxTurns":0})", ErrorKind::invalid_request, "'maxTurns'"},
      {R"({"prompt":"p","maxTurns":1.5})", ErrorKind::invalid_request, "'maxTurns'"},
      {R"({"prompt":"p","poolId":"3"})", ErrorKind::invalid_request, "'poolId'"},
      {R"({"prompt":"p","poolId":-1})", ErrorKind::invalid_request, "'poolId'"},
      {R"({"prompt":"p","maxTokens":0})", ErrorKind::invalid_request, "'maxTokens'"},
      {R"({"prompt":"p","temperature":3})", ErrorKind::invalid_request, "'temperature'"},
      {R"({"prompt":"p","seed":-1})", ErrorKind::invalid_request, "'seed'"},
      {R"({"prompt":"p","detachable":true})", ErrorKind::not_supported, "detachable"},
  };
  for (const Bad& bad : cases) {
    const auto r = parse_turn_request(bad.body, "header-session");
    ASSERT_FALSE(r.ok()) << bad.body;
    EXPECT_EQ(r.error().kind, bad.kind) << bad.body << ": " << r.error().message;
    EXPECT_NE(r.error().message.find(bad.names), std::string::npos) << bad.body << ": " << r.error().message;
  }
}

}  // namespace
}  // namespace roost::agent
