#include "core/json.h"

#include <gtest/gtest.h>

#include "core/limits.h"

namespace roost {
namespace {

TEST(ParseJson, RefusesWhatIsNotOneJsonText) {
  for (const char* bad : {"", "{", "{} x", "nul", "{\"a\":1,}", "[1 2]", "\"\xff\xfe\""}) {
    auto value = parse_json(bad);
    ASSERT_FALSE(value.ok()) << bad;
    EXPECT_EQ(value.error().kind, ErrorKind::invalid_json) << bad;
  }
  EXPECT_TRUE(parse_json(" {\"a\": [1, 2]} \n").ok());
}

TEST(ParseJson, RefusesDepthBeyondTheLimitWithoutRecursingIntoIt) {
  const std::string deep(10'000, '[');
  EXPECT_FALSE(parse_json(deep + std::string(10'000, ']')).ok());
  const std::string fits = std::string(limits::kJsonDepth, '[') + std::string(limits::kJsonDepth, ']');
  EXPECT_TRUE(parse_json(fits).ok());
}

TEST(ParseJson, AnObjectIsWantedAndNamed) {
  auto value = parse_json_object("[1]");
  ASSERT_FALSE(value.ok());
  EXPECT_NE(value.error().message.find("must be a JSON object, not an array"), std::string::npos);
}

json::object object(std::string_view text) { return *parse_json_object(text); }

TEST(ObjectReader, IntegersKeepTheirRangeAndNameTheField) {
  const auto o =
      object(R"({"a":5,"b":5.0,"c":5.5,"d":"5","e":18446744073709551615,"f":1e300,"g":null,"h":-1,"i":true})");
  const ObjectReader r(o, "options");
  EXPECT_EQ(**r.integer("a", 0, 9), 5);
  EXPECT_EQ(**r.integer("b", 0, 9), 5);
  EXPECT_FALSE((*r.integer("g", 0, 9)).has_value());
  EXPECT_FALSE((*r.integer("missing", 0, 9)).has_value());
  for (const char* name : {"c", "d", "e", "f", "h", "i"}) {
    auto n = r.integer(name, 0, 9);
    ASSERT_FALSE(n.ok()) << name;
    EXPECT_EQ(n.error().kind, ErrorKind::invalid_request);
    EXPECT_NE(n.error().message.find(std::string("'options.") + name + "'"), std::string::npos) << n.error().message;
  }
  EXPECT_NE(r.integer("h", 0, 9).error().message.find("from 0 to 9"), std::string::npos);
}

TEST(ObjectReader, NumbersStringsBooleansArraysObjects) {
  const auto o = object(R"({"n":0.5,"i":2,"s":"x","b":false,"a":[1],"o":{"k":1}})");
  const ObjectReader r(o);
  EXPECT_DOUBLE_EQ(**r.number("n", 0, 1), 0.5);
  EXPECT_DOUBLE_EQ(**r.number("i", 0, 2), 2.0);
  EXPECT_FALSE(r.number("i", 0, 1).ok());
  EXPECT_EQ(**r.string("s"), "x");
  EXPECT_FALSE(r.string("n").ok());
  EXPECT_FALSE(**r.boolean("b"));
  EXPECT_EQ((*r.array("a"))->size(), 1U);
  EXPECT_EQ((*r.object("o"))->size(), 1U);
  EXPECT_EQ(*r.object("missing"), nullptr);
  EXPECT_FALSE(r.array("o").ok());
  EXPECT_FALSE(r.object("a").ok());
}

}  // namespace
}  // namespace roost
