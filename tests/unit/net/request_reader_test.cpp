#include "net/request_reader.h"

#include <gtest/gtest.h>

#include <cstring>

namespace roost::net {
namespace {

using Progress = RequestReader::Progress;

void put(RequestReader& reader, std::string_view bytes) {
  const auto space = reader.space();
  ASSERT_GE(space.size(), bytes.size());
  std::memcpy(space.data(), bytes.data(), bytes.size());
  reader.commit(bytes.size());
}

// Reads one request to its end.
Result<Progress> advance_all(RequestReader& reader) {
  while (true) {
    const Result<Progress> progress = reader.advance();
    if (!progress || *progress != Progress::head) return progress;
  }
}

Result<Progress> read(std::string_view bytes, RequestReader& reader) {
  put(reader, bytes);
  return advance_all(reader);
}

ErrorKind refusal(std::string_view bytes) {
  RequestReader reader(1024, 100);
  const Result<Progress> progress = read(bytes, reader);
  EXPECT_FALSE(progress) << bytes;
  return progress ? ErrorKind::io : progress.error().kind;
}

constexpr std::string_view kTwo =
    "POST /a?x=1 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;ext=1\r\nhello\r\n1\r\n!\r\n0\r\nT: "
    "1\r\n\r\n"
    "\r\nPUT /b HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";

TEST(RequestReader, ReadsPipelinedRequestsForEverySplit) {
  for (std::size_t split = 1; split < kTwo.size(); ++split) {
    RequestReader reader(1024, 100);
    std::vector<Request> requests;
    for (const std::string_view piece : {kTwo.substr(0, split), kTwo.substr(split)}) {
      put(reader, piece);
      while (true) {
        const Result<Progress> progress = reader.advance();
        ASSERT_TRUE(progress) << "split at " << split << ": " << progress.error().message;
        if (*progress == Progress::need_more) break;
        if (*progress == Progress::head) continue;
        requests.push_back(reader.request());
        reader.next();
      }
    }
    ASSERT_EQ(requests.size(), 2u) << "split at " << split;
    EXPECT_EQ(requests[0].body, "hello!");
    EXPECT_EQ(requests[0].path, "/a");
    EXPECT_EQ(requests[1].method, "PUT");
    EXPECT_EQ(requests[1].body, "abc");
    EXPECT_FALSE(reader.has_bytes());
  }
}

TEST(RequestReader, ReportsTheHeadBeforeTheBody) {
  RequestReader reader(1024, 100);
  put(reader, "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_EQ(*reader.advance(), Progress::head);
  EXPECT_TRUE(reader.expects_continue());
  EXPECT_TRUE(reader.request().body.empty());
  EXPECT_EQ(*reader.advance(), Progress::complete);
  EXPECT_EQ(reader.request().body, "abc");
}

TEST(RequestReader, KnowsWhetherTheConnectionStays) {
  const std::pair<const char*, bool> cases[] = {
      {"GET / HTTP/1.1\r\nHost: h\r\n\r\n", true},
      {"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", false},
      {"GET / HTTP/1.0\r\n\r\n", false},
      {"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true},
  };
  for (const auto& [bytes, keep] : cases) {
    RequestReader reader(1024, 100);
    ASSERT_EQ(*read(bytes, reader), Progress::complete);
    EXPECT_EQ(reader.request().keep_alive, keep) << bytes;
  }
}

TEST(RequestReader, RefusesMalformedRequests) {
  for (const char* bad : {"GET\r\n\r\n", "GET / HTTP/2.0\r\nHost: h\r\n\r\n", "GET / HTTP/1.1\r\nHost : h\r\n\r\n",
                          "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
                          "GET nopath HTTP/1.1\r\nHost: h\r\n\r\n", "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n",
                          "\x16\x03\x01\x02 tls hello\r\n\r\n", "GET / HTTP/1.1\nHost: h\n\n"}) {
    EXPECT_EQ(refusal(bad), ErrorKind::invalid_request) << bad;
  }
}

TEST(RequestReader, RefusesABodyWhoseLengthIsAmbiguous) {
  const std::string post = "POST / HTTP/1.1\r\nHost: h\r\n";
  for (const char* framing :
       {"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        "Content-Length: -1\r\n\r\n", "Content-Length: 3,4\r\n\r\n", "Content-Length: x\r\n\r\n",
        "Transfer-Encoding: gzip\r\n\r\n", "Transfer-Encoding: gzip, chunked\r\n\r\n",
        "Transfer-Encoding: identity\r\n\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n"}) {
    EXPECT_EQ(refusal(post + framing), ErrorKind::invalid_request) << framing;
  }
  EXPECT_EQ(refusal("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), ErrorKind::invalid_request);
}

TEST(RequestReader, RefusesABodyAboveTheLimitBeforeReadingIt) {
  EXPECT_EQ(refusal("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 101\r\n\r\n"), ErrorKind::body_too_large);
  EXPECT_EQ(refusal("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551615\r\n\r\n"),
            ErrorKind::body_too_large);
  EXPECT_EQ(refusal("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n"),
            ErrorKind::body_too_large);
  EXPECT_EQ(refusal("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n63\r\n"),
            ErrorKind::body_too_large);
  RequestReader reader(1024, 100);
  EXPECT_EQ(*read("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n" + std::string(100, 'x'), reader),
            Progress::complete);
}

TEST(RequestReader, RefusesAHeadAboveTheLimits) {
  EXPECT_EQ(refusal("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(2000, 'x')), ErrorKind::head_too_large);
  EXPECT_EQ(refusal("GET /" + std::string(2000, 'x')), ErrorKind::head_too_large);
  std::string many = "GET / HTTP/1.1\r\nHost: h\r\n";
  for (int i = 0; i < 100; ++i) many += "a: b\r\n";
  RequestReader reader(16 * 1024, 100);
  EXPECT_EQ(read(many + "\r\n", reader).error().kind, ErrorKind::head_too_large);
}

TEST(RequestReader, AChunkHeadOrTrailerThatDoesNotEndIsRefused) {
  const std::string post = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(refusal(post + "1;" + std::string(2000, 'e')), ErrorKind::invalid_request);
  EXPECT_EQ(refusal(post + "0\r\nT: " + std::string(2000, 't')), ErrorKind::invalid_request);
}

}  // namespace
}  // namespace roost::net
