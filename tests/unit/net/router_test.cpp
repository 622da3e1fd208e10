#include <gtest/gtest.h>

#include "net/http_server.h"

namespace roost::net {
namespace {

awaitable<void> nothing(Exchange&) { co_return; }

class RouterTest : public testing::Test {
 protected:
  RouterTest() {
    for (const auto& [method, path] : {std::pair{"GET", "/"},
                                       {"GET", "/sessions/{id}"},
                                       {"DELETE", "/sessions/{id}"},
                                       {"POST", "/sessions/close"},
                                       {"POST", "/sessions/{id}/close"}}) {
      router.add(method, path, nothing);
    }
  }
  Router router;
};

TEST_F(RouterTest, MatchesExactPathsAndNames) {
  EXPECT_NE(router.match("GET", "/").handler, nullptr);
  const Router::Match match = router.match("POST", "/sessions/a b/close");
  ASSERT_NE(match.handler, nullptr);
  ASSERT_EQ(match.params.size(), 1u);
  EXPECT_EQ(match.params[0], (std::pair<std::string, std::string>{"id", "a b"}));
}

TEST_F(RouterTest, AFixedPathWinsOverANameWhateverTheOrder) {
  router.add("GET", "/sessions/close", nothing);
  EXPECT_TRUE(router.match("GET", "/sessions/close").params.empty());
  EXPECT_TRUE(router.match("POST", "/sessions/close").params.empty());
}

TEST_F(RouterTest, AnUnknownPathIsNotFound) {
  for (const char* path : {"/x", "/sessions", "/sessions/", "/sessions/a/b", "/sessions/a/close/", "*"}) {
    const Router::Match match = router.match("POST", path);
    ASSERT_EQ(match.handler, nullptr) << path;
    EXPECT_EQ(match.error.kind, ErrorKind::not_found) << path;
  }
}

TEST_F(RouterTest, AKnownPathNamesItsMethods) {
  const Router::Match match = router.match("PUT", "/sessions/a");
  EXPECT_EQ(match.error.kind, ErrorKind::method_not_allowed);
  EXPECT_EQ(match.allow, "GET, DELETE, HEAD");
}

TEST_F(RouterTest, HeadIsAnsweredByTheGetRoute) {
  EXPECT_NE(router.match("HEAD", "/sessions/a").handler, nullptr);
  EXPECT_EQ(router.match("HEAD", "/sessions/close").handler, router.match("GET", "/sessions/close").handler);
}

}  // namespace
}  // namespace roost::net
