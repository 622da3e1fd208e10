#include "api/access.h"

#include <gtest/gtest.h>

namespace roost::api {
namespace {

net::Request request(std::string path, net::Headers headers) {
  net::Request r;
  r.path = std::move(path);
  r.headers = std::move(headers);
  return r;
}

TEST(Access, WithoutAKeyEveryoneMay) { EXPECT_TRUE(check_access(request("/slots", {}), "").ok()); }

TEST(Access, TheKeyComesAsBearerOrApiKeyHeader) {
  EXPECT_TRUE(check_access(request("/slots", {{"Authorization", "Bearer k1"}}), "k1").ok());
  EXPECT_TRUE(check_access(request("/slots", {{"authorization", "bearer k1"}}), "k1").ok());
  EXPECT_TRUE(check_access(request("/slots", {{"X-Api-Key", "k1"}}), "k1").ok());
}

TEST(Access, AWrongOrMissingKeyIsRefused) {
  for (const auto& value : {"", "Bearer ", "Bearer k", "Bearer k12", "Bearer k2", "Basic k1", "k1"}) {
    const auto result = check_access(request("/slots", {{"Authorization", value}}), "k1");
    ASSERT_FALSE(result.ok()) << value;
    EXPECT_EQ(result.error().kind, ErrorKind::unauthorized);
  }
}

TEST(Access, HealthIsOpenToAll) { EXPECT_TRUE(check_access(request("/health", {}), "k1").ok()); }

TEST(Access, ConstantTimeComparisonIsEquality) {
  EXPECT_TRUE(equal_in_constant_time("", ""));
  EXPECT_TRUE(equal_in_constant_time("abc", "abc"));
  for (const auto& [a, b] : {std::pair("", "a"), std::pair("a", ""), std::pair("aa", "a"), std::pair("abc", "abd")}) {
    EXPECT_FALSE(equal_in_constant_time(a, b));
  }
}

}  // namespace
}  // namespace roost::api
