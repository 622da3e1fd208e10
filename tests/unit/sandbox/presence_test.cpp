// Presence records and leases in a real Redis, and the relay that keeps them.
#include "store/presence.h"

#include "redis_server.h"
#include "store/leases.h"
#include "test_stack.h"

namespace roost::sandbox::test {
namespace {

using std::chrono::milliseconds;

std::shared_ptr<store::Redis> connect(Loop& loop, const RedisServer& server) {
  auto redis = loop.call([&] { return *store::Redis::open(loop.executor(), server.url()); });
  EXPECT_TRUE(loop.run(redis->wait_connected(std::chrono::seconds(20))).ok());
  return redis;
}
void disconnect(Loop& loop, std::shared_ptr<store::Redis>& redis) {
  loop.call([&] {
    redis->close();
    redis.reset();
    return true;
  });
}

class StoreTest : public ::testing::Test {
 protected:
  void TearDown() override { disconnect(loop, redis); }
  store::RedisReply command(std::vector<std::string> arguments) {
    return *loop.run(redis->command(std::move(arguments)));
  }

  RedisServer server;
  Loop loop;
  std::shared_ptr<store::Redis> redis = connect(loop, server);
};

class PresenceTest : public StoreTest {
 protected:
  store::SandboxRecord record(const std::string& id, std::int64_t epoch = 1) {
    store::SandboxRecord r;
    r.sandbox_id = id;
    r.labels = {{"zone", "a\"b"}};
    r.capabilities = {"bash", "fileops.v1"};
    r.capacity_max = 8;
    r.relay = "127.0.0.1:9444";
    r.epoch = epoch;
    return r;
  }
  std::vector<store::SandboxRecord> list() { return *loop.run(presence.list()); }
  void put(store::SandboxRecord r, milliseconds ttl = store::kPresenceTtl) {
    ASSERT_TRUE(loop.run(presence.put(std::move(r), ttl)).ok());
  }

  store::Presence presence{redis};
};

TEST_F(PresenceTest, ARecordComesBackAsItWasWritten) {
  put(record("box-2"));
  put(record("box-1"));
  const auto all = list();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].sandbox_id, "box-1");
  EXPECT_EQ(all[1].labels.at("zone"), "a\"b");
  EXPECT_TRUE(all[1].can("fileops.v1"));
  EXPECT_FALSE(all[1].can("gpu"));
  EXPECT_EQ(all[1].capacity_max, 8U);
  EXPECT_EQ(all[1].transport, "grpc");
  EXPECT_EQ(all[1].relay, "127.0.0.1:9444");
  EXPECT_EQ(all[1].epoch, 1);
  EXPECT_GT(all[1].expires_ms, 0);
}

TEST_F(PresenceTest, AnEmptyRecordKeepsItsShapes) {
  store::SandboxRecord bare;
  bare.sandbox_id = "bare";
  put(bare);
  EXPECT_EQ(list().size(), 1U);
  const auto text = command({"HGET", "sh:sandbox:records", "bare"}).text;
  EXPECT_NE(text.find(R"("labels":{})"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("capabilities":[])"), std::string::npos) << text;
}

TEST_F(PresenceTest, AnExpiredRecordIsNotListedAndIsPruned) {
  put(record("old"), milliseconds(1));
  put(record("new"));
  ASSERT_TRUE(eventually([&] { return list().size() == 1; }));
  EXPECT_EQ(list()[0].sandbox_id, "new");
  EXPECT_EQ(command({"HEXISTS", "sh:sandbox:records", "old"}).integer, 0);
}

TEST_F(PresenceTest, ARefreshExtendsTheLife) {
  put(record("box"));
  const auto before = list()[0].expires_ms;
  put(record("box"), store::kPresenceTtl + milliseconds(1000));
  EXPECT_GT(list()[0].expires_ms, before);
}

TEST_F(PresenceTest, AnOlderEpochNeitherReplacesNorRemovesANewerOne) {
  auto newer = record("box", 5);
  newer.relay = "new:1";
  put(newer);
  put(record("box", 4));
  EXPECT_EQ(list()[0].relay, "new:1");
  ASSERT_TRUE(loop.run(presence.remove("box", 4)).ok());
  EXPECT_EQ(list().size(), 1U);
  ASSERT_TRUE(loop.run(presence.remove("box", 5)).ok());
  EXPECT_TRUE(list().empty());
}

TEST_F(PresenceTest, UnreadableRecordsArePrunedAndDoNotHideOthers) {
  put(record("box"));
  command({"HSET", "sh:sandbox:records", "broken", "{not json"});
  command({"HSET", "sh:sandbox:records", "odd", "[1]"});
  EXPECT_EQ(list().size(), 1U);
  EXPECT_EQ(command({"HLEN", "sh:sandbox:records"}).integer, 1);
}

class LeaseTest : public StoreTest {
 protected:
  store::Leases::Taken take(const std::string& holder, std::size_t cap, milliseconds ttl = store::kLeaseTtl) {
    return *loop.run(leases.take("box", holder, cap, ttl));
  }
  store::Leases leases{redis};
};

TEST_F(LeaseTest, NoMoreThanTheCapAreTaken) {
  EXPECT_TRUE(take("a", 2).taken);
  EXPECT_EQ(take("b", 2).held, 2U);
  const auto third = take("c", 2);
  EXPECT_FALSE(third.taken);
  EXPECT_EQ(third.held, 2U);
  ASSERT_TRUE(loop.run(leases.release("box", "a")).ok());
  EXPECT_TRUE(take("c", 2).taken);
  EXPECT_EQ(*loop.run(leases.held("box")), 2U);
}

TEST_F(LeaseTest, AHolderThatTakesAgainKeepsItsOnePlace) {
  EXPECT_TRUE(take("a", 1).taken);
  EXPECT_TRUE(take("a", 1).taken);
  EXPECT_EQ(*loop.run(leases.held("box")), 1U);
}

TEST_F(LeaseTest, AnExpiredLeaseFreesItsPlaceAndCannotBeExtended) {
  EXPECT_TRUE(take("crashed", 1, milliseconds(1)).taken);
  ASSERT_TRUE(eventually([&] { return take("next", 1).taken; }));
  EXPECT_FALSE(*loop.run(leases.extend("box", "crashed")));
  EXPECT_TRUE(*loop.run(leases.extend("box", "next")));
}

TEST_F(LeaseTest, ARaceOfManyHoldersNeverExceedsTheCap) {
  Loop other_loop;
  auto other_redis = connect(other_loop, server);
  store::Leases other(other_redis);
  std::vector<std::future<Result<store::Leases::Taken>>> attempts;
  for (int i = 0; i < 100; ++i) {
    attempts.push_back(loop.launch(leases.take("box", "a" + std::to_string(i), 7)));
    attempts.push_back(other_loop.launch(other.take("box", "b" + std::to_string(i), 7)));
  }
  int taken = 0;
  for (auto& attempt : attempts) {
    const auto result = *attempt.get();
    taken += result.taken ? 1 : 0;
    EXPECT_LE(result.held, 7U);
  }
  EXPECT_EQ(taken, 7);
  disconnect(other_loop, other_redis);
}

TEST(LeaseCap, IsTheSmallerOfBothAndFourPerCoreByDefault) {
  EXPECT_EQ(store::lease_cap(0, 0, 2), 8U);
  EXPECT_EQ(store::lease_cap(0, 3, 2), 3U);
  EXPECT_EQ(store::lease_cap(5, 100, 2), 5U);
  EXPECT_EQ(store::lease_cap(5, 2, 2), 2U);
}

class RelayPresenceTest : public Stack {
 protected:
  void SetUp() override {
    Stack::SetUp();
    if (!relay) return;
    stop_relay();
    redis = connect(loop, server);
    start_relay({"127.0.0.1:0", "127.0.0.1:0", auth(), redis});
    reader = connect(loop, server);
  }
  void TearDown() override {
    Stack::TearDown();
    if (redis) disconnect(loop, redis);
    if (reader) disconnect(loop, reader);
  }
  std::vector<store::SandboxRecord> list() {
    store::Presence presence(reader);
    auto records = loop.run(presence.list());
    return records ? *records : std::vector<store::SandboxRecord>();
  }

  RedisServer server;
  std::shared_ptr<store::Redis> redis;
  std::shared_ptr<store::Redis> reader;
};

TEST_F(RelayPresenceTest, AnAttachedSandboxIsPresentAndADetachedOneIsNot) {
  start_sandbox("box");
  ASSERT_TRUE(eventually([&] { return list().size() == 1; }));
  const auto record = list()[0];
  EXPECT_EQ(record.sandbox_id, "box");
  EXPECT_EQ(record.capacity_max, 4U);
  EXPECT_EQ(record.relay, exec_address());
  stop_sandbox("box");
  EXPECT_TRUE(eventually([&] { return list().empty(); }));
}

TEST_F(RelayPresenceTest, HeartbeatsRefreshTheRecord) {
  auto options = sandbox_options("box");
  options.attach.heartbeat = milliseconds(20);
  start_sandbox("box", options);
  ASSERT_TRUE(eventually([&] { return list().size() == 1; }));
  const auto first = list()[0].expires_ms;
  EXPECT_TRUE(eventually([&] { return list()[0].expires_ms > first; }));
}

TEST_F(RelayPresenceTest, RecordsAreWrittenAgainWhenRedisComesBackEmpty) {
  start_sandbox("box");
  ASSERT_TRUE(eventually([&] { return list().size() == 1; }));
  server.kill_now();
  server.start();
  EXPECT_TRUE(eventually([&] { return list().size() == 1; }));
}

TEST_F(RelayPresenceTest, AStoppedRelayTakesItsRecordsWithIt) {
  start_sandbox("box");
  ASSERT_TRUE(eventually([&] { return list().size() == 1; }));
  stop_relay();
  EXPECT_TRUE(list().empty());
}

}  // namespace
}  // namespace roost::sandbox::test
