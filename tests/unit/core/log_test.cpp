#include "core/log.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/json.h"

namespace roost::log {
namespace {

TEST(Log, AJsonLineIsOneObjectWithTheFields) {
  const std::string line = format_line(Format::json, Level::warn, "engine", 12.3456, "pool dropped",
                                       {{"pool_id", 0}, {"why", "idle \"x\"\n"}, {"share", 0.5}, {"pinned", false}});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_TRUE(line.starts_with("{\"ts\":12.346,")) << line;
  const auto o = *parse_json_object(line);
  EXPECT_EQ(o.at("level"), "warn");
  EXPECT_EQ(o.at("part"), "engine");
  EXPECT_EQ(o.at("event"), "pool dropped");
  EXPECT_EQ(o.at("pool_id"), 0);
  EXPECT_EQ(o.at("why"), "idle \"x\"\n");
  EXPECT_EQ(o.at("pinned"), false);
}

TEST(Log, WhatJsonCannotSayIsNull) {
  const auto o = *parse_json_object(format_line(Format::json, Level::info, "x", 1, "e", {{"n", std::nan("")}}));
  EXPECT_TRUE(o.at("n").is_null());
}

TEST(Log, TextIsForPeople) {
  EXPECT_EQ(format_line(Format::text, Level::info, "host", 1.5, "ready", {{"port", 8080}}),
            "1.500 info  host: ready port=8080");
}

}  // namespace
}  // namespace roost::log
