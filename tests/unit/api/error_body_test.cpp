#include "api/error_body.h"

#include <gtest/gtest.h>

namespace roost::api {
namespace {

TEST(ErrorBody, StatusBodyAndHeadersComeFromTheKind) {
  for (const auto& row : error_kinds()) {
    const net::Response response = error_response({row.kind, "why", {}, {}});
    const json::object body = json::parse(response.body).as_object();
    const json::object& error = body.at("error").as_object();
    EXPECT_EQ(response.status, row.status);
    EXPECT_EQ(error.at("code").as_int64(), row.status);
    EXPECT_EQ(error.at("type").as_string(), row.type);
    EXPECT_EQ(error.at("error_kind").as_string(), row.name);
    EXPECT_EQ(error.at("message").as_string(), "why");
    EXPECT_EQ(body.at("reason").as_string(), "why");
    EXPECT_EQ(response.headers.find("Retry-After") != nullptr, row.retry_after_s > 0);
  }
}

TEST(ErrorBody, DetailsAreMembersOfTheError) {
  const json::object body = error_body({ErrorKind::prefix_mismatch, "differs", {{"index", 7}}, {}});
  EXPECT_EQ(body.at("error").at("index").as_int64(), 7);
}

TEST(ErrorBody, AnErrorsOwnRetryAfterWins) {
  const net::Response response = error_response({ErrorKind::settling, "wait", {}, 9});
  EXPECT_EQ(response.headers.get("Retry-After"), "9");
}

}  // namespace
}  // namespace roost::api
