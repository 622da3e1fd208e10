#include "cli/state_dir.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

namespace roost::cli {
namespace {

namespace fs = std::filesystem;

class StateDirTest : public testing::Test {
 protected:
  StateDirTest() { EXPECT_NE(::mkdtemp(folder_), nullptr); }
  ~StateDirTest() override { fs::remove_all(folder_); }
  std::string in(const std::string& name) const { return std::string(folder_) + "/" + name; }
  char folder_[32] = "/tmp/roost-state-XXXXXX";
};

TEST_F(StateDirTest, OneAtATime) {
  {
    auto first = StateDir::open(in("state"));
    ASSERT_TRUE(first.ok());
    auto second = StateDir::open(in("state"));
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().kind, ErrorKind::bad_config);
    EXPECT_NE(second.error().message.find("--state-dir"), std::string::npos);
  }
  EXPECT_TRUE(StateDir::open(in("state")).ok());
}

TEST_F(StateDirTest, TheAddressesGoWithIt) {
  {
    auto state = StateDir::open(in("state"));
    ASSERT_TRUE(state.ok());
    ASSERT_TRUE(state->write_addresses({{"host", "x"}}).ok());
    EXPECT_TRUE(fs::exists(in("state/addresses.json")));
    StateDir moved = *std::move(state);
    EXPECT_TRUE(fs::exists(moved.path() + "/addresses.json"));
  }
  EXPECT_FALSE(fs::exists(in("state/addresses.json")));
}

TEST_F(StateDirTest, ASocketInADeepFolderLiesElsewhereAndGoesAtTheEnd) {
  std::string socket;
  {
    auto state = StateDir::open(in(std::string(120, 'd')));
    ASSERT_TRUE(state.ok());
    socket = *state->redis_socket();
    EXPECT_LT(socket.size(), 108U);
    EXPECT_TRUE(fs::exists(fs::path(socket).parent_path()));
  }
  EXPECT_FALSE(fs::exists(fs::path(socket).parent_path()));
}

TEST_F(StateDirTest, AFolderThatCannotBeMadeIsSaid) {
  auto state = StateDir::open("/proc/no/such");
  ASSERT_FALSE(state.ok());
  EXPECT_NE(state.error().message.find("/proc/no/such"), std::string::npos);
}

}  // namespace
}  // namespace roost::cli
