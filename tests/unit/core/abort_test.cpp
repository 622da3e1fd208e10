#include "core/abort.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace roost {
namespace {

TEST(AbortSource, TellsEachSubscriberOnceAndKeepsTheFirstReason) {
  AbortSource source;
  int calls = 0;
  auto a = source.subscribe([&] { ++calls; });
  auto b = source.subscribe([&] { ++calls; });
  EXPECT_FALSE(source.requested());
  source.request("client_gone");
  source.request("draining");
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(source.reason(), "client_gone");
}

TEST(AbortSource, ALateSubscriberIsToldAtOnce) {
  AbortSource source;
  source.request("cancelled");
  bool told = false;
  auto s = source.subscribe([&] { told = true; });
  EXPECT_TRUE(told);
}

TEST(AbortSource, ADroppedSubscriptionIsNotCalled) {
  AbortSource source;
  bool told = false;
  {
    auto s = source.subscribe([&] { told = true; });
  }
  source.request("cancelled");
  EXPECT_FALSE(told);
}

TEST(AbortSource, ACallbackMayDropAnySubscriptionItsOwnToo) {
  AbortSource source;
  std::vector<AbortSource::Subscription> subscriptions(3);
  std::vector<int> order;
  subscriptions[0] = source.subscribe([&] {
    order.push_back(0);
    subscriptions[0].reset();
    subscriptions[1].reset();
  });
  subscriptions[1] = source.subscribe([&] { order.push_back(1); });
  subscriptions[2] = source.subscribe([&] { order.push_back(2); });
  source.request("cancelled");
  EXPECT_EQ(order, (std::vector{0, 2}));
}

TEST(AbortSource, MovingASubscriptionKeepsIt) {
  AbortSource source;
  int calls = 0;
  auto a = source.subscribe([&] { ++calls; });
  AbortSource::Subscription b = std::move(a);
  a.reset();
  source.request("cancelled");
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace roost
