#include "core/ids.h"

#include <gtest/gtest.h>

namespace roost {
namespace {

TEST(Ids, RandomHexHasTheLengthAndDiffers) {
  EXPECT_EQ(random_hex(16).size(), 32U);
  EXPECT_NE(random_hex(16), random_hex(16));
  EXPECT_EQ(random_hex(4).find_first_not_of("0123456789abcdef"), std::string::npos);
}

TEST(Ids, PlainSessionIds) {
  for (const char* good : {"a", "A-1._~", "0123456789"}) EXPECT_TRUE(is_plain_session_id(good)) << good;
  for (const char* bad : {"", "a b", "a/b", "é", "a%20"}) EXPECT_FALSE(is_plain_session_id(bad)) << bad;
  EXPECT_TRUE(is_plain_session_id(std::string(128, 'x')));
  EXPECT_FALSE(is_plain_session_id(std::string(129, 'x')));
}

}  // namespace
}  // namespace roost
