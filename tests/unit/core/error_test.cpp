#include "core/error.h"

#include <gtest/gtest.h>

#include <set>

#include "core/result.h"

namespace roost {
namespace {

TEST(ErrorTable, NamesAreUniqueAndStatusesAreErrors) {
  std::set<std::string_view> names;
  for (const auto& row : error_kinds()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name << " stands twice";
    EXPECT_GE(row.status, 400) << row.name;
    EXPECT_LT(row.status, 600) << row.name;
    EXPECT_FALSE(row.type.empty()) << row.name;
  }
}

TEST(ErrorTable, EveryKindThatMaySucceedLaterTellsWhenToTryAgain) {
  for (const auto& row : error_kinds()) {
    EXPECT_EQ(row.retry_after_s > 0, row.status == 429 || row.status == 503) << row.name;
  }
}

TEST(ErrorTable, AnErrorOverridesTheTablesRetryAfter) {
  Error error{ErrorKind::tps_floor, "busy", {}, {}};
  EXPECT_EQ(error.retry_after(), 1);
  error.retry_after_s = 7;
  EXPECT_EQ(error.retry_after(), 7);
  EXPECT_EQ(error.status(), 429);
  EXPECT_EQ(error.name(), "tps_floor");
}

Result<int> half(int n) {
  if (n % 2 != 0) return {ErrorKind::invalid_request, "odd"};
  return n / 2;
}

Result<int> quarter(int n) {
  ROOST_TRY(h, half(n));
  ROOST_TRY(q, half(h));
  return q;
}

Result<void> check_quarter(int n) {
  ROOST_TRY(q, quarter(n));
  (void)q;
  ROOST_TRY_VOID(Result<void>{});
  return {};
}

TEST(Result, TryReturnsTheFirstError) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).error().message, "odd");
  EXPECT_TRUE(check_quarter(4).ok());
  EXPECT_FALSE(check_quarter(3).ok());
}

TEST(Result, AsksForAValueOfAnErrorAbort) { EXPECT_DEATH((void)half(1).value(), "value\\(\\) of an error"); }

}  // namespace
}  // namespace roost
