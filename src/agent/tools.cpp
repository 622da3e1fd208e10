#include "agent/tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "core/limits.h"
#include "core/utf8.h"

namespace roost::agent {
namespace {

constexpr std::size_t kPathBytes = 4096;
constexpr std::int64_t kMaxLine = 1'000'000'000;
constexpr std::int64_t kMaxTimeoutSeconds = 86'400;

Error bad_argument(std::string message) { return {ErrorKind::invalid_request, std::move(message), {}, {}}; }

Result<std::string> required_text(const ObjectReader& arguments, std::string_view name) {
  ROOST_TRY(value, arguments.string(name));
  if (!value) return bad_argument(fmt::format("'{}' is required", name));
  return *std::move(value);
}

Result<std::string> checked_path(std::string path) {
  if (path.empty()) return bad_argument("'path' is empty");
  if (path.size() > kPathBytes) return bad_argument(fmt::format("'path' is longer than {} bytes", kPathBytes));
  if (path.find('\0') != std::string::npos) return bad_argument("'path' holds a NUL byte");
  // A leading "./" keeps "-" and "-x" from being read as an option or as standard input.
  if (path.front() != '/') path.insert(0, "./");
  return path;
}

Result<std::string> required_path(const ObjectReader& arguments) {
  ROOST_TRY(path, required_text(arguments, "path"));
  return checked_path(std::move(path));
}

Result<void> bash_command(const ObjectReader& arguments, sandbox::ExecSpec& spec) {
  ROOST_TRY(command, required_text(arguments, "command"));
  if (command.find('\0') != std::string::npos) return bad_argument("'command' holds a NUL byte");
  ROOST_TRY(timeout, arguments.integer("timeout", 1, kMaxTimeoutSeconds));
  if (timeout) {
    const std::chrono::seconds asked(*timeout);
    if (spec.timeout.count() == 0 || asked < spec.timeout) spec.timeout = asked;
  }
  spec.command = std::move(command);
  return {};
}

Result<void> read_command(const ObjectReader& arguments, sandbox::ExecSpec& spec) {
  ROOST_TRY(path, required_path(arguments));
  ROOST_TRY(offset, arguments.integer("offset", 1, kMaxLine));
  ROOST_TRY(limit, arguments.integer("limit", 1, kMaxLine));
  const std::int64_t first = offset.value_or(1);
  const std::string range =
      limit ? fmt::format("{},{}p;{}q", first, first + *limit - 1, first + *limit - 1) : fmt::format("{},$p", first);
  // One byte more than is shown, so that the cut is seen. 141 is sed's SIGPIPE when head has enough.
  spec.command = fmt::format("sed -n {} {} | head -c {}; rc=${{PIPESTATUS[0]}}; [ $rc -eq 141 ] && rc=0; exit $rc",
                             shell_quote(range), shell_quote(path), limits::kToolOutputBytes + 1);
  return {};
}

Result<void> write_command(const ObjectReader& arguments, sandbox::ExecSpec& spec) {
  ROOST_TRY(path, required_path(arguments));
  ROOST_TRY(content, required_text(arguments, "content"));
  const std::string quoted = shell_quote(path);
  const auto slash = path.rfind('/');
  const std::string folder = slash == 0 ? "/" : path.substr(0, slash);
  spec.command = fmt::format("mkdir -p {} && cat > {} && echo {}", shell_quote(folder), quoted,
                             shell_quote(fmt::format("wrote {} bytes", content.size())));
  spec.stdin_bytes = std::move(content);
  return {};
}

Result<void> ls_command(const ObjectReader& arguments, sandbox::ExecSpec& spec) {
  ROOST_TRY(given, arguments.string("path"));
  ROOST_TRY(path, checked_path(std::move(given).value_or(".")));
  spec.command = "ls -la " + shell_quote(path);
  return {};
}

constexpr Tool kTools[] = {
    {"bash", "Run a bash command in the workspace and return what it prints.",
     R"({"type":"object","properties":{"command":{"type":"string","description":"the command line"},)"
     R"("timeout":{"type":"integer","minimum":1,"description":"seconds"}},"required":["command"]})",
     bash_command, OutputCut::middle},
    {"read", "Read a text file, or some of its lines.",
     R"({"type":"object","properties":{"path":{"type":"string"},)"
     R"("offset":{"type":"integer","minimum":1,"description":"first line"},)"
     R"("limit":{"type":"integer","minimum":1,"description":"number of lines"}},"required":["path"]})",
     read_command, OutputCut::head},
    {"write", "Write a file, replacing it; missing folders are made.",
     R"({"type":"object","properties":{"path":{"type":"string"},"content":{"type":"string"}},)"
     R"("required":["path","content"]})",
     write_command, OutputCut::head},
    {"ls", "List a folder.", R"({"type":"object","properties":{"path":{"type":"string"}}})", ls_command,
     OutputCut::head},
};

ToolSchema schema_of(const Tool& tool) {
  auto parameters = parse_json_object(tool.parameters);
  ROOST_CHECK(parameters.ok(), "a tool's schema is not a JSON object");
  return {std::string(tool.name), std::string(tool.description), *std::move(parameters)};
}

std::string known_names() {
  std::vector<std::string_view> names;
  for (const Tool& tool : kTools) names.push_back(tool.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// One element of a request's `tools`.
Result<ToolSchema> read_tool(const json::value& value, const std::string& path) {
  std::string name;
  const json::object* own = value.if_object();
  if (const json::string* text = value.if_string()) {
    name = *text;
  } else if (own != nullptr) {
    ROOST_TRY(given, ObjectReader(*own, path).string("name"));
    if (!given) return bad_argument(fmt::format("'{}.name' is required", path));
    name = *std::move(given);
  } else {
    return bad_argument(fmt::format("'{}' must be a tool's name or an object with a name", path));
  }
  const Tool* tool = find_tool(name);
  if (tool == nullptr) {
    return bad_argument(
        fmt::format("'{}' names '{}', which is not offered; known: {}", path, utf8_prefix(name, 64), known_names()));
  }
  ToolSchema schema = schema_of(*tool);
  if (own == nullptr) return schema;
  const ObjectReader reader(*own, path);
  ROOST_TRY(description, reader.string("description"));
  ROOST_TRY(parameters, reader.object("parameters"));
  if (description) schema.description = *std::move(description);
  if (parameters != nullptr) schema.parameters = *parameters;
  if (json::serialize(schema.parameters).size() + schema.description.size() > limits::kGrammarBytes) {
    return bad_argument(fmt::format("'{}' is longer than {} bytes", path, limits::kGrammarBytes));
  }
  return schema;
}

ToolOutcome failure(std::string text) {
  return {cap_output(to_valid_utf8(text), limits::kToolOutputBytes, OutputCut::head), true};
}

}  // namespace

std::span<const Tool> all_tools() { return kTools; }

const Tool* find_tool(std::string_view name) {
  const auto found = std::ranges::find(kTools, name, &Tool::name);
  return found == std::end(kTools) ? nullptr : found;
}

std::vector<ToolSchema> all_tool_schemas() {
  std::vector<ToolSchema> schemas;
  for (const Tool& tool : kTools) schemas.push_back(schema_of(tool));
  return schemas;
}

Result<std::vector<ToolSchema>> read_tools(const json::array& tools) {
  if (tools.size() > limits::kToolsPerRequest) {
    return bad_argument(fmt::format("'tools' has {} entries, at most {}", tools.size(), limits::kToolsPerRequest));
  }
  std::array<std::optional<ToolSchema>, std::size(kTools)> offered;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    ROOST_TRY(schema, read_tool(tools[i], fmt::format("tools[{}]", i)));
    const std::size_t at = static_cast<std::size_t>(find_tool(schema.name) - std::begin(kTools));
    if (offered[at]) return bad_argument(fmt::format("'tools' names '{}' twice", schema.name));
    offered[at] = std::move(schema);
  }
  std::vector<ToolSchema> schemas;
  for (auto& schema : offered) {
    if (schema) schemas.push_back(*std::move(schema));
  }
  return schemas;
}

Result<json::array> tool_definitions(const json::array& tools) {
  ROOST_TRY(schemas, read_tools(tools));
  return to_openai(schemas);
}

asio::awaitable<ToolOutcome> run_tool(ToolCall call, ToolContext context, AbortSource& abort) {
  const Tool* tool = find_tool(call.name);
  if (tool == nullptr) {
    co_return failure(fmt::format("there is no tool '{}'; known: {}", utf8_prefix(call.name, 64), known_names()));
  }
  auto arguments =
      parse_json_object(call.arguments.empty() ? std::string_view("{}") : std::string_view(call.arguments));
  if (!arguments.ok()) co_return failure("the arguments are not a JSON object");
  sandbox::ExecSpec spec;
  spec.workspace_key = context.workspace_key;
  spec.timeout = context.timeout;
  const ObjectReader reader(*arguments);
  if (auto made = tool->to_command(reader, spec); !made.ok()) co_return failure(made.error().message);

  auto outcome = co_await context.seat->exec(std::move(spec), &abort);
  if (!outcome.ok()) co_return failure(fmt::format("the command did not run to its end: {}", outcome.error().message));
  co_return to_tool_outcome(*outcome, tool->cut);
}

std::string shell_quote(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out.push_back(c);
    }
  }
  out.push_back('\'');
  return out;
}

std::string cap_output(std::string text, std::size_t limit, OutputCut cut) {
  if (text.size() <= limit) return text;
  if (cut == OutputCut::head) {
    return fmt::format("{}\n[... cut after {} bytes; there is more ...]", utf8_prefix(text, limit), limit);
  }
  const std::string_view head = utf8_prefix(text, limit / 4 * 3);
  const std::string_view tail = utf8_suffix(text, limit / 4);
  return fmt::format("{}\n[... {} bytes left out ...]\n{}", head, text.size() - head.size() - tail.size(), tail);
}

ToolOutcome to_tool_outcome(const sandbox::ExecOutcome& outcome, OutputCut cut) {
  std::string text = to_valid_utf8(outcome.out);
  if (!outcome.err.empty()) {
    if (!text.empty() && text.back() != '\n') text.push_back('\n');
    text += to_valid_utf8(outcome.err);
  }
  text = cap_output(std::move(text), limits::kToolOutputBytes, cut);
  const auto add_line = [&](std::string_view line) {
    if (!text.empty() && text.back() != '\n') text.push_back('\n');
    text += line;
  };
  if (outcome.truncated) add_line("[the output reached its limit and the command was stopped]");
  if (outcome.exit_code > 0) add_line(fmt::format("[exit code {}]", outcome.exit_code));
  if (outcome.exit_code < 0) add_line("[ended by a signal]");
  if (text.empty()) text = "(no output)";
  return {std::move(text), outcome.truncated || outcome.exit_code != 0};
}

}  // namespace roost::agent
