// What a command can and cannot reach.
#include <filesystem>
#include <fstream>

#include "sandbox/probe_command.h"
#include "test_stack.h"

namespace roost::sandbox::test {
namespace {

class IsolationTest : public Stack {
 protected:
  void SetUp() override {
    Stack::SetUp();
    if (isolation()) start_sandbox("box");
  }
  std::string out_of(const std::string& command) {
    const auto done = exec(command);
    EXPECT_TRUE(done.ok()) << done.error().message;
    return done.ok() ? done->out : std::string();
  }
};

TEST_F(IsolationTest, OnlyTheWorkspaceAndTmpAreWritable) {
  EXPECT_EQ(out_of("pwd; echo $HOME"), "/workspace\n/workspace\n");
  EXPECT_EQ(
      out_of(
          "for d in / /usr /usr/bin /etc /etc/ssl /proc /sys /var; do touch $d/x 2>/dev/null && echo $d; done; true"),
      "");
  EXPECT_EQ(out_of("echo kept > file; cat file"), "kept\n");
  EXPECT_EQ(read_text(file("file")), "kept\n");
  EXPECT_EQ(out_of("echo private > /tmp/p; cat /tmp/p"), "private\n");
  EXPECT_EQ(out_of("ls /tmp"), "") << "a command sees the /tmp of another";
}

TEST_F(IsolationTest, ThereIsNoNetwork) {
  EXPECT_EQ(out_of("ls /sys/class/net 2>/dev/null; tail -n +3 /proc/net/dev | grep -v ' *lo:' ; true"), "");
  const auto dial = exec("exec 3<>/dev/tcp/127.0.0.1/" + std::to_string(relay->attach_port()));
  ASSERT_TRUE(dial.ok());
  EXPECT_NE(dial->exit_code, 0) << "the relay's port was reached";
}

TEST_F(IsolationTest, OtherProcessesAreInvisible) {
  // Its own pid namespace: bubblewrap's first process, bash and ls at most.
  EXPECT_LE(std::stoi(out_of("ls -d /proc/[0-9]* 2>/dev/null | wc -l")), 4);
  EXPECT_NE(exec("kill -0 " + std::to_string(getpid()))->exit_code, 0);
}

TEST_F(IsolationTest, OtherWorkspacesAreInvisible) {
  auto other = spec("echo secret > s");
  other.workspace_key = unique_key();
  ASSERT_TRUE(exec(other).ok());
  ASSERT_EQ(read_text(workspace_root() + "/" + other.workspace_key + "/s"), "secret\n");
  EXPECT_EQ(out_of("ls -a"), ".\n..\n");
  EXPECT_EQ(out_of("find / \\( -path /proc -o -path /usr \\) -prune -o -name s -type f -print 2>/dev/null; true"), "");
  EXPECT_EQ(out_of("ls -d " + workspace_root() + " /mnt/workspaces 2>/dev/null; true"), "");
}

TEST_F(IsolationTest, AWorkspaceIsKeptBetweenCommands) {
  ASSERT_TRUE(exec("echo one > f").ok());
  EXPECT_EQ(out_of("cat f"), "one\n");
}

TEST_F(IsolationTest, NothingOfTheEnvironmentLeaksIn) {
  setenv("SANDBOX_TOKEN", "leaked-token", 1);
  EXPECT_EQ(out_of("env | grep -c leaked-token; cat /proc/1/environ 2>/dev/null | grep -ac leaked-token; true"),
            "0\n0\n");
}

TEST_F(IsolationTest, TheCommandHasNoPrivileges) {
  EXPECT_EQ(out_of("grep -E 'CapEff|NoNewPrivs' /proc/self/status | tr -d '\\t'"),
            "CapEff:0000000000000000\nNoNewPrivs:1\n");
  EXPECT_EQ(out_of("ulimit -c; [ $(ulimit -u) -le 512 ] && echo bound"), "0\nbound\n");
  EXPECT_NE(exec("mount -t tmpfs none /tmp")->exit_code, 0);
}

TEST_F(IsolationTest, AForkBombMeetsTheProcessLimit) {
  if (isolation()->run_uid() == 0 && geteuid() == 0) GTEST_SKIP() << "limits do not bind root";
  const auto done = exec(
      "perl -e 'while ($n < 700) { $p = fork(); last unless defined $p; if (!$p) { sleep 60; exit } $n++ } print $n'");
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_GT(std::stoi(done->out), 100);
  EXPECT_LE(std::stoi(done->out), 512);
}

TEST_F(IsolationTest, AWorkspaceThatIsASymlinkIsRefused) {
  const std::string link = "linked-" + key;
  std::filesystem::create_directory_symlink("/etc", workspace_root() + "/" + link);
  auto bad = spec("ls");
  bad.workspace_key = link;
  const auto done = exec(bad);
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().message.find("not a folder"), std::string::npos);
}

TEST(IsolationFinding, AMissingBubblewrapIsAClearRefusal) {
  auto folder = workspaces();
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nonexistent", 1);
  const auto found = Isolation::find({}, *contained_zygote(), folder);
  setenv("PATH", path.c_str(), 1);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().kind, ErrorKind::bad_config);
  EXPECT_NE(found.error().message.find("--isolation=none"), std::string::npos);
}

TEST(IsolationFinding, ABubblewrapThatCannotIsolateIsRefusedWithItsReason) {
  auto folder = workspaces();
  const std::string fake = workspace_root() + "/fake-bwrap";
  std::ofstream(fake) << "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n";
  std::filesystem::permissions(fake, std::filesystem::perms(0755));
  Isolation::Options options;
  options.bwrap_path = contained_zygote()->workspace_view() + "/fake-bwrap";
  const auto found = Isolation::find(options, *contained_zygote(), folder);
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().message.find("No permissions to create new namespace"), std::string::npos)
      << found.error().message;
  EXPECT_NE(found.error().message.find("--isolation=none"), std::string::npos);
}

TEST(IsolationFinding, ABubblewrapThatOnlyPretendsIsNotTrusted) {
  auto folder = workspaces();
  const std::string fake = workspace_root() + "/lax-bwrap";
  std::ofstream(fake) << "#!/bin/bash\nwhile [ \"$1\" != -- ]; do shift; done; shift\ncd /tmp; exec \"$@\"\n";
  std::filesystem::permissions(fake, std::filesystem::perms(0755));
  Isolation::Options options;
  options.bwrap_path = contained_zygote()->workspace_view() + "/lax-bwrap";
  EXPECT_FALSE(Isolation::find(options, *contained_zygote(), folder).ok());
}

TEST(WorkspaceKeys, NamesThatLeaveTheRootAreNoKeys) {
  for (const char* bad : {"", ".", "..", ".roost", "a/b", "/etc", "a b", "../x", "a\\b"})
    EXPECT_FALSE(is_workspace_key(bad)) << bad;
  EXPECT_FALSE(is_workspace_key(std::string_view("a\0b", 3)));
  EXPECT_FALSE(is_workspace_key(std::string(129, 'a')));
  for (const char* good : {"a", "session-1", "A.b_c~d", "0"}) EXPECT_TRUE(is_workspace_key(good)) << good;
}

}  // namespace
}  // namespace roost::sandbox::test
