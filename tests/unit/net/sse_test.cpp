#include "net/sse.h"

#include <gtest/gtest.h>

#include "core/limits.h"

namespace roost::net {
namespace {

std::vector<SseEvent> parse(std::initializer_list<std::string_view> pieces) {
  SseParser parser;
  std::vector<SseEvent> events;
  for (const std::string_view piece : pieces) parser.feed(piece, events);
  return events;
}

TEST(SseFormat, WritesEventIdAndOneDataLinePerLine) {
  EXPECT_EQ(format_sse("hello"), "data: hello\n\n");
  EXPECT_EQ(format_sse("a\nb", "delta", "7"), "event: delta\nid: 7\ndata: a\ndata: b\n\n");
  EXPECT_EQ(format_sse(""), "data: \n\n");
}

TEST(SseFormat, ALineBreakInsideAFieldCannotStartAnotherField) {
  EXPECT_EQ(format_sse("x", "a\nid: 9"), "event: a id: 9\ndata: x\n\n");
  EXPECT_EQ(format_sse("a\rb\r\nc"), "data: a\ndata: b\ndata: c\n\n");
  EXPECT_EQ(format_sse_comment("keepalive\ndata: x"), ": keepalive data: x\n\n");
}

TEST(SseParser, GivesTheSameEventsForEverySplit) {
  const std::string stream =
      "\xEF\xBB\xBF: ping\r\n\r\nevent: delta\r\nid: 4\r\ndata: one\r\ndata: two\r\n\r\ndata:three\n\n"
      "data\n\nretry: 10\rdata: {\"a\":\"b: c\"}\r\rid: 9\n\nevent: end\ndata: x\n\n";
  const std::vector<SseEvent> expected{
      {"delta", "one\ntwo", "4"}, {"", "three", ""}, {"", "", ""}, {"", "{\"a\":\"b: c\"}", ""}, {"end", "x", ""}};
  ASSERT_EQ(parse({stream}), expected);
  for (std::size_t split = 0; split <= stream.size(); ++split) {
    const std::string_view view = stream;
    EXPECT_EQ(parse({view.substr(0, split), view.substr(split)}), expected) << "split at " << split;
  }
  SseParser parser;
  std::vector<SseEvent> events;
  for (const char& c : stream) parser.feed({&c, 1}, events);
  EXPECT_EQ(events, expected);
  EXPECT_EQ(parser.comments(), 1u);
}

TEST(SseParser, AnUnfinishedEventIsNotGiven) {
  EXPECT_TRUE(parse({"data: half\n"}).empty());
  EXPECT_TRUE(parse({"event: only-a-name\n\n"}).empty());
}

TEST(SseParser, ReadsWhatTheFormatterWrites) {
  for (const std::string& data : {std::string(""), std::string("a"), std::string("a\n\nb\n"), std::string("\n")}) {
    EXPECT_EQ(parse({format_sse(data, "e", "i")}), (std::vector<SseEvent>{{"e", data, "i"}}));
  }
}

TEST(SseParser, DropsAnEventAboveTheLimitAndGoesOn) {
  SseParser parser;
  std::vector<SseEvent> events;
  const std::string part(1024 * 1024, 'x');
  parser.feed("data: ", events);
  for (std::size_t sent = 0; sent <= limits::kSseEventBytes; sent += part.size()) parser.feed(part, events);
  parser.feed("\n\ndata: next\n\n", events);
  EXPECT_TRUE(parser.too_large());
  EXPECT_EQ(events, (std::vector<SseEvent>{{"", "next", ""}}));
}

}  // namespace
}  // namespace roost::net
