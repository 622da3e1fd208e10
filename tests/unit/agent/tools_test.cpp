#include "agent/tools.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "agent/tool_batch.h"
#include "core/limits.h"
#include "fakes.h"

namespace roost::agent {
namespace {

using test::run_until_done;

// The tool's command, made from JSON arguments.
Result<sandbox::ExecSpec> command_of(std::string_view tool, std::string_view arguments) {
  auto object = parse_json_object(arguments);
  sandbox::ExecSpec spec;
  ROOST_TRY_VOID(find_tool(tool)->to_command(ObjectReader(*object), spec));
  return spec;
}

struct Ran {
  std::string out;
  int exit_code = 0;
};

// Runs a command in a folder with bash, as a sandbox does.
Ran run_in(const std::filesystem::path& folder, const sandbox::ExecSpec& spec) {
  const auto input = folder / ".stdin";
  std::ofstream(input, std::ios::binary) << spec.stdin_bytes;
  const std::string line = "cd " + shell_quote(folder.string()) + " && bash -c " + shell_quote(spec.command) +
                           " 2>&1 < " + shell_quote(input.string());
  FILE* pipe = ::popen(line.c_str(), "r");
  Ran ran;
  std::array<char, 4096> buffer{};
  while (const std::size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) ran.out.append(buffer.data(), n);
  ran.exit_code = WEXITSTATUS(::pclose(pipe));
  return ran;
}

struct Workspace {
  Workspace() {
    std::string pattern = (std::filesystem::temp_directory_path() / "roost-tools-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    folder = pattern;
  }
  ~Workspace() { std::filesystem::remove_all(folder); }
  std::filesystem::path folder;
};

TEST(Tools, WhatWriteWroteReadReads) {
  const Workspace w;
  for (const std::string path : {"a.txt", "deep/er/it's; rm -rf $(x) `y` \\\"z.txt", "-n", "-", "sp ace/\u00e4"}) {
    const std::string content = "first\n$HOME 'quoted' \\ line\nthird without newline";
    const auto arguments = json::serialize(json::object{{"path", path}, {"content", content}});
    const auto write = command_of("write", arguments);
    ASSERT_TRUE(write.ok());
    const Ran wrote = run_in(w.folder, *write);
    EXPECT_EQ(wrote.exit_code, 0) << wrote.out;
    const auto read = command_of("read", json::serialize(json::object{{"path", path}}));
    ASSERT_TRUE(read.ok());
    EXPECT_EQ(run_in(w.folder, *read).out, content) << path;
  }
}

TEST(Tools, ReadTakesARangeOfLinesAndAtMostItsCap) {
  const Workspace w;
  std::ofstream(w.folder / "n") << "1\n2\n3\n4\n5\n";
  EXPECT_EQ(run_in(w.folder, *command_of("read", R"({"path":"n","offset":2,"limit":3})")).out, "2\n3\n4\n");
  EXPECT_EQ(run_in(w.folder, *command_of("read", R"({"path":"n","offset":5})")).out, "5\n");
  std::ofstream(w.folder / "big") << std::string(300'000, 'x') << '\n' << std::string(300'000, 'y');
  const Ran big = run_in(w.folder, *command_of("read", R"({"path":"big"})"));
  EXPECT_EQ(big.exit_code, 0);
  EXPECT_EQ(big.out.size(), limits::kToolOutputBytes + 1);
  EXPECT_NE(run_in(w.folder, *command_of("read", R"({"path":"absent"})")).exit_code, 0);
  EXPECT_NE(run_in(w.folder, *command_of("read", R"({"path":"."})")).exit_code, 0);
}

TEST(Tools, LsListsAFolderAndFailsOnAMissingOne) {
  const Workspace w;
  std::ofstream(w.folder / "seen") << "x";
  EXPECT_NE(run_in(w.folder, *command_of("ls", "{}")).out.find("seen"), std::string::npos);
  EXPECT_NE(run_in(w.folder, *command_of("ls", R"({"path":"no"})")).exit_code, 0);
}

TEST(Tools, BadArgumentsAreNamed) {
  EXPECT_NE(command_of("bash", "{}").error().message.find("'command'"), std::string::npos);
  EXPECT_NE(command_of("bash", R"({"command":7})").error().message.find("'command'"), std::string::npos);
  EXPECT_NE(command_of("bash", R"({"command":"a","timeout":0})").error().message.find("'timeout'"), std::string::npos);
  EXPECT_NE(command_of("bash", R"({"command":"a\u0000b"})").error().message.find("NUL"), std::string::npos);
  EXPECT_NE(command_of("read", R"({"path":""})").error().message.find("'path'"), std::string::npos);
  EXPECT_NE(command_of("read", R"({"path":"x\u0000"})").error().message.find("NUL"), std::string::npos);
  EXPECT_NE(command_of("read", R"({"path":"x","offset":0})").error().message.find("'offset'"), std::string::npos);
  EXPECT_NE(command_of("write", R"({"path":"x"})").error().message.find("'content'"), std::string::npos);
}

TEST(ToolOutcome, AFailedOrCutCommandIsNeverASuccess) {
  EXPECT_FALSE(to_tool_outcome({"fine\n", "", 0, false}, OutputCut::middle).is_error);
  const ToolOutcome failed = to_tool_outcome({"out", "err", 3, false}, OutputCut::middle);
  EXPECT_TRUE(failed.is_error);
  EXPECT_EQ(failed.text, "out\nerr\n[exit code 3]");
  EXPECT_TRUE(to_tool_outcome({"out", "", 0, true}, OutputCut::middle).is_error);
  EXPECT_TRUE(to_tool_outcome({"", "", -1, false}, OutputCut::middle).is_error);
  EXPECT_EQ(to_tool_outcome({"", "", 0, false}, OutputCut::middle).text, "(no output)");
}

TEST(ToolOutcome, IsCappedWithAMarkerAndIsValidUtf8) {
  std::string text;
  while (text.size() < 3 * limits::kToolOutputBytes) text += "\u20ac\xff";
  const ToolOutcome middle = to_tool_outcome({text, "", 0, false}, OutputCut::middle);
  EXPECT_FALSE(middle.is_error);
  EXPECT_LE(middle.text.size(), limits::kToolOutputBytes + 100);
  EXPECT_NE(middle.text.find("left out"), std::string::npos);
  EXPECT_TRUE(json::parse(json::serialize(json::value(middle.text))).is_string());
  EXPECT_NE(cap_output(std::string(100, 'x'), 10, OutputCut::head).find("there is more"), std::string::npos);
}

asio::awaitable<void> batch(asio::io_context& context, std::vector<ToolCall> calls, std::vector<std::string>& events,
                            std::vector<ToolOutcome>& outcomes) {
  test::FakeSandboxes boxes;
  auto seat = co_await boxes.take("h", "");
  AbortSource abort;
  const ToolContext where{seat->get(), "ws", std::chrono::seconds(60)};
  auto offered = all_tool_schemas();
  OnToolFinished note = [&](std::size_t index, const ToolOutcome&) -> asio::awaitable<void> {
    events.push_back(calls[index].id);
    co_return;
  };
  outcomes = co_await run_tool_batch(context.get_executor(), calls, offered, where, abort, note);
  EXPECT_EQ(boxes.specs.empty() ? "ws" : boxes.specs[0].workspace_key, "ws");
}

TEST(ToolBatch, RunsInParallelTellsAsTheyFinishAndAnswersInOrder) {
  asio::io_context context{1};
  std::vector<std::string> told;
  std::vector<ToolOutcome> outcomes;
  const std::vector<ToolCall> calls{test::bash("1", "later"),
                                    test::bash("2", "meet"),
                                    test::bash("3", "meet"),
                                    {"4", "nope", "{}"},
                                    {"5", "bash", "{broken"}};
  run_until_done(context, batch(context, calls, told, outcomes));
  ASSERT_EQ(outcomes.size(), 5U);
  EXPECT_EQ(outcomes[0].text, "later");
  EXPECT_EQ(outcomes[1].text, "meet");
  EXPECT_TRUE(outcomes[3].is_error);
  EXPECT_NE(outcomes[3].text.find("known: bash, read, write, ls"), std::string::npos);
  EXPECT_TRUE(outcomes[4].is_error);
  EXPECT_EQ(told.size(), 5U);
  EXPECT_EQ(told.back(), "1");
}

}  // namespace
}  // namespace roost::agent
