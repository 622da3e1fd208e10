#include "net/http.h"

#include <gtest/gtest.h>

#include "net/http_client.h"
#include "net/http_server.h"
#include "net/response_head.h"

namespace roost::net {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

TEST(Headers, NamesCompareWithoutCase) {
  Headers headers{{"Content-Type", "a"}, {"X-One", "1"}, {"x-one", "2"}};
  EXPECT_EQ(headers.get("CONTENT-TYPE"), "a");
  EXPECT_EQ(headers.get("x-one"), "1");
  EXPECT_EQ(headers.find("x-two"), nullptr);
  headers.set("X-ONE", "3");
  EXPECT_EQ(headers.size(), 2u);
  EXPECT_EQ(headers.get("x-one"), "3");
}

TEST(PercentDecoding, DecodesHexPairsOnly) {
  EXPECT_EQ(*percent_decode("a%20b%2Fc%c3%A9"), "a b/c\xC3\xA9");
  EXPECT_EQ(*percent_decode("a+b"), "a+b");
  EXPECT_EQ(*percent_decode("a+b", true), "a b");
  for (const char* bad : {"%", "%4", "a%", "%zz", "%4g", "%00", "%%41"}) {
    const auto decoded = percent_decode(bad);
    ASSERT_FALSE(decoded) << bad;
    EXPECT_EQ(decoded.error().kind, ErrorKind::invalid_request);
  }
}

TEST(PercentDecoding, UndoesEncodingForEveryByteButNul) {
  std::string all;
  for (int c = 1; c < 256; ++c) all += static_cast<char>(c);
  EXPECT_EQ(*percent_decode(percent_encode(all)), all);
  EXPECT_EQ(percent_encode("a-b._~/ ?"), "a-b._~%2F%20%3F");
}

TEST(Query, SplitsInOrderAndDecodes) {
  EXPECT_EQ(*parse_query("a=1&b=x+y&a=2&flag&=v&&c=%26%3d"),
            (Pairs{{"a", "1"}, {"b", "x y"}, {"a", "2"}, {"flag", ""}, {"", "v"}, {"c", "&="}}));
  EXPECT_TRUE(parse_query("")->empty());
  EXPECT_FALSE(parse_query("a=%"));
}

TEST(Target, SeparatesPathAndQuery) {
  Request request;
  ASSERT_TRUE(set_target(request, "/polykv/pools/3%2e?tokens=1&q=a%3Fb"));
  EXPECT_EQ(request.path, "/polykv/pools/3.");
  EXPECT_EQ(*request.query_value("tokens"), "1");
  EXPECT_EQ(*request.query_value("q"), "a?b");
  EXPECT_EQ(request.query_value("none"), nullptr);
}

TEST(Target, AcceptsTheAbsoluteForm) {
  Request request;
  ASSERT_TRUE(set_target(request, "http://host:8090/v1/models?a=b"));
  EXPECT_EQ(request.path, "/v1/models");
  ASSERT_TRUE(set_target(request, "HTTP://host"));
  EXPECT_EQ(request.path, "/");
  EXPECT_TRUE(request.query.empty());
}

TEST(Target, RefusesWhatIsNoPath) {
  Request request;
  for (const char* bad : {"", "x", "host:80", "/%", "/a?b=%g1", "ftp://host/x"}) {
    EXPECT_FALSE(set_target(request, bad)) << bad;
  }
}

TEST(ReasonPhrase, IsEmptyForAnUnknownStatus) {
  EXPECT_EQ(reason_phrase(404), "Not Found");
  EXPECT_EQ(reason_phrase(799), "");
  for (const ErrorKindInfo& row : error_kinds()) EXPECT_FALSE(reason_phrase(row.status).empty()) << row.status;
}

TEST(ResponseHead, NoHeaderValueCanStartAnotherHeader) {
  const Headers headers{{"X-Id", "a\r\nSet-Cookie: b"}, {"Content-Length", "99"}, {"Connection", "upgrade"}};
  const std::string head = render_response_head(200, headers, {Framing::Body::length, 3, ""});
  EXPECT_EQ(head, "HTTP/1.1 200 OK\r\nX-Id: a  Set-Cookie: b\r\nContent-Length: 3\r\n\r\n");
}

TEST(ErrorResponse, StatusBodyAndHeadersAgree) {
  const Response response = default_error_response({ErrorKind::queue_full, "full", {{"queued", 3}}, {}});
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(response.headers.get("Retry-After"), "1");
  const json::value body = json::parse(response.body);
  const json::object& error = body.at("error").as_object();
  EXPECT_EQ(error.at("code"), 429);
  EXPECT_EQ(error.at("message"), "full");
  EXPECT_EQ(error.at("type"), "rate_limit_error");
  EXPECT_EQ(error.at("error_kind"), "queue_full");
  EXPECT_EQ(error.at("queued"), 3);
}

TEST(Url, ReadsSchemeHostPortAndPath) {
  const Url url = *parse_url("http://127.0.0.1:8090/base/v1/");
  EXPECT_EQ(url.scheme, "http");
  EXPECT_EQ(url.host, "127.0.0.1");
  EXPECT_EQ(url.port, 8090);
  EXPECT_EQ(url.path, "/base/v1");
  EXPECT_EQ(parse_url("HTTPS://Example.org")->port, 443);
  EXPECT_EQ(parse_url("http://example.org/")->path, "");
  EXPECT_EQ(parse_url("http://[::1]:80")->host, "::1");
}

TEST(Url, SaysWhatIsWrong) {
  for (const char* bad : {"", "localhost", "localhost:80", "ftp://x", "http://", "http://x:0", "http://x:70000",
                          "http://u:p@x", "http://x/?a=b", "http://x/#f", "http://a b"}) {
    const Result<Url> url = parse_url(bad);
    ASSERT_FALSE(url) << bad;
    EXPECT_EQ(url.error().kind, ErrorKind::invalid_request);
  }
}

}  // namespace
}  // namespace roost::net
