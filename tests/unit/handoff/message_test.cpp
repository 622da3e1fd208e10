#include "handoff/message.h"

#include <gtest/gtest.h>

#include <random>

#include "handoff/inherit.h"
#include "handoff/lag_window.h"

namespace roost::handoff {
namespace {

TEST(Message, EveryKindSurvivesTheWire) {
  const Message all[] = {Conn{0xffffffff, 0x3fffffffffffffffULL, true, true},
                         Conn{},
                         Conn{1, 2, false, true},
                         DrainOrder{},
                         Ready{12345},
                         Returned{Returned::Why::at_capacity},
                         Returned{Returned::Why::idle},
                         Draining{},
                         Stats{1, 2, 3, 4, 5},
                         Stats{}};
  for (const Message& message : all) {
    const auto back = decode(encode(message));
    ASSERT_TRUE(back) << message.index();
    EXPECT_EQ(*back, message);
  }
}

TEST(Message, RandomBytesNeverHarm) {
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes(random() % 100);
    for (auto& b : bytes) b = static_cast<std::byte>(random() % (i % 2 == 0 ? 8 : 256));
    const auto message = decode(bytes);
    if (message) {
      EXPECT_EQ(bytes.size(), kMessageBytes);
    }
  }
}

EnvironmentLookup environment(const std::vector<std::string>& entries) {
  return [entries](std::string_view name) -> std::optional<std::string> {
    for (const auto& e : entries) {
      if (e.starts_with(std::string(name) + "=")) return e.substr(name.size() + 1);
    }
    return std::nullopt;
  };
}

TEST(Inheritance, WhatTheSupervisorWritesTheWorkerReads) {
  const Inheritance given{3, 4, 17, 2, 1};
  const auto read = inherited(environment(given.as_environment()));
  ASSERT_TRUE(read);
  ASSERT_TRUE(*read);
  EXPECT_EQ((*read)->channel_fd, 3);
  EXPECT_EQ((*read)->page_fd, 4);
  EXPECT_EQ((*read)->row, 17U);
  EXPECT_EQ((*read)->generation, 2U);
  EXPECT_EQ((*read)->worker_id, 1U);
}

TEST(Inheritance, WithoutTheVariablesThereIsNoHost) {
  const auto read = inherited(environment({}));
  ASSERT_TRUE(read);
  EXPECT_FALSE(*read);
}

TEST(Inheritance, HalfOfItOrNonsenseIsAnError) {
  std::vector<std::string> entries = Inheritance{3, 4, 0, 1, 1}.as_environment();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    auto without = entries;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_FALSE(inherited(environment(without))) << entries[i];
    auto nonsense = entries;
    nonsense[i] += "x";
    EXPECT_FALSE(inherited(environment(nonsense))) << nonsense[i];
  }
}

TEST(LagWindow, P99IsTheValueThatNinetyNineOfAHundredDoNotExceed) {
  LagWindow window;
  EXPECT_FALSE(window.p99());
  for (int i = 1; i <= 100; ++i) window.add(std::chrono::nanoseconds(i));
  EXPECT_EQ(window.p99()->count(), 99);
  for (std::size_t i = 0; i < LagWindow::kSamples; ++i) window.add(std::chrono::nanoseconds(-5));
  EXPECT_EQ(window.p99()->count(), 0) << "old samples are forgotten, and a lag is not negative";
}

}  // namespace
}  // namespace roost::handoff
