#include "handoff/peek.h"

#include <gtest/gtest.h>

#include <string>

namespace roost::handoff {
namespace {

const std::string kTurn =
    "POST /v1/turn HTTP/1.1\r\nHost: x\r\nx-sh-SESSION-id: \t abc-1 \r\nContent-Length: 3\r\n\r\n";

TEST(PeekHead, AtEachLengthItIsCompleteExactlyFromTheBlankLineOn) {
  const std::string all = kTurn + "abc";
  for (std::size_t n = 0; n <= all.size(); ++n) {
    const PeekedHead head = peek_head(std::string_view(all).substr(0, n));
    ASSERT_EQ(head.complete, n >= kTurn.size()) << n;
    if (!head.complete) continue;
    EXPECT_TRUE(head.turn);
    EXPECT_EQ(head.session_id, "abc-1");
  }
}

TEST(PeekHead, OnlyAPostToExactlyATurnTargetIsATurn) {
  const auto turn = [](std::string_view line) { return peek_head(std::string(line) + "\r\nHost: x\r\n\r\n").turn; };
  EXPECT_TRUE(turn("POST /turn HTTP/1.1"));
  EXPECT_TRUE(turn("POST /v1/turn HTTP/1.0"));
  for (const char* line :
       {"GET /turn HTTP/1.1", "POST /turn?x=1 HTTP/1.1", "POST /turn/ HTTP/1.1", "POST /v1/turn/cancel HTTP/1.1",
        "POST  /turn HTTP/1.1", "post /turn HTTP/1.1", "POST /turn", "POST /turn HTTP/2", "", " ", "\x16\x03\x01"}) {
    EXPECT_FALSE(turn(line)) << line;
  }
}

TEST(PeekHead, AnEmptyOrMissingSessionIsAbsent) {
  EXPECT_EQ(peek_head("GET / HTTP/1.1\r\n\r\n").session_id, "");
  EXPECT_EQ(peek_head("GET / HTTP/1.1\r\nX-SH-Session-Id:   \r\n\r\n").session_id, "");
  EXPECT_EQ(peek_head("GET / HTTP/1.1\r\nX-SH-Session-Id2: a\r\nno colon\r\n\r\n").session_id, "");
  EXPECT_EQ(peek_head("GET / HTTP/1.1\r\nX-SH-Session-Id:\r\nX-SH-Session-Id: b\r\n\r\n").session_id, "b");
}

TEST(PeekHead, ABodyThatLooksLikeAHeaderIsNotRead) {
  EXPECT_EQ(peek_head("POST /turn HTTP/1.1\r\n\r\nX-SH-Session-Id: evil\r\n\r\n").session_id, "");
}

TEST(PeekHead, BareNewlinesEndAHeadToo) {
  const PeekedHead head = peek_head("POST /turn HTTP/1.1\nX-SH-Session-Id: a\n\n");
  EXPECT_TRUE(head.complete);
  EXPECT_EQ(head.session_id, "a");
}

}  // namespace
}  // namespace roost::handoff
