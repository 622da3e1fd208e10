#include "cli/demo_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <memory>

#include "agent/tools.h"
#include "cli/demo_task.h"
#include "core/ids.h"
#include "net/http_client.h"
#include "net/sse.h"

namespace roost::cli {

using namespace std::chrono_literals;
using Time = std::chrono::steady_clock;

namespace {

constexpr int kAnswerTokens = 64;
constexpr auto kSpeedPoll = 200ms;

double since(Time::time_point start) { return std::chrono::duration<double>(Time::now() - start).count(); }

// What a small model may choose from in its tool call: the schema's grammar leads it, the choice is its own.
json::array demo_tools() {
  json::object command;
  command["type"] = "string";
  command["enum"] = {"ls -la", "pwd", "uname -s", "echo harbor > release.txt && ls"};
  json::object parameters;
  parameters["type"] = "object";
  parameters["properties"] = json::object{{"command", std::move(command)}};
  parameters["required"] = {"command"};
  json::object bash;
  bash["name"] = "bash";
  bash["parameters"] = std::move(parameters);
  return {std::move(bash), "read", "ls"};
}

std::int64_t number_at(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_number() ? value->to_number<std::int64_t>() : 0;
}

double real_at(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_number() ? value->to_number<double>() : 0.0;
}

std::string text_at(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string();
}

// The message of an error answer, whichever server made it.
std::string error_message(const net::Response& response) {
  auto body = parse_json_object(response.body);
  if (body) {
    if (const json::value* error = body->if_contains("error"); error != nullptr && error->is_object()) {
      return text_at(error->get_object(), "message");
    }
    const std::string message = text_at(*body, "message");
    return message.empty() ? text_at(*body, "error") : text_at(*body, "error") + ": " + message;
  }
  return response.body;
}

// The job while it runs.
class Job : public std::enable_shared_from_this<Job> {
 public:
  Job(asio::any_io_executor executor, DemoSpec spec, net::Url engine, net::Url host,
      std::function<void(const DemoReport&)> on_change)
      : executor_(executor),
        spec_(std::move(spec)),
        engine_(executor, std::move(engine), {}),
        host_(executor, std::move(host), {}),
        on_change_(std::move(on_change)) {}

  asio::awaitable<Result<DemoReport>> run() {
    const auto start = Time::now();
    ROOST_CO_TRY_VOID(co_await read_model_name());
    ROOST_CO_TRY_VOID(co_await create_pool());
    const std::string run_id = random_hex(3);
    for (int i = 0; i < spec_.agents; ++i) {
      AgentReport agent;
      agent.role = demo_role(i).name;
      agent.session_id = fmt::format("demo-{}-{}-{}", run_id, i, agent.role);
      report_.agents.push_back(std::move(agent));
    }
    changed();
    running_ = spec_.agents;
    for (int i = 0; i < spec_.agents; ++i) {
      asio::co_spawn(executor_, run_agent(shared_from_this(), static_cast<std::size_t>(i)), asio::detached);
    }
    asio::steady_timer timer(executor_);
    while (running_ > 0) {
      co_await poll_speed();
      timer.expires_after(kSpeedPoll);
      co_await timer.async_wait(asio::use_awaitable);
    }
    report_.wall_s = since(start);
    changed();
    co_await release();
    co_return std::move(report_);
  }

 private:
  net::Headers engine_headers() const {
    net::Headers headers{{"Content-Type", "application/json"}};
    if (!spec_.engine_api_key.empty()) headers.add("Authorization", "Bearer " + spec_.engine_api_key);
    return headers;
  }

  asio::awaitable<Result<json::object>> ask_engine(std::string method, std::string target, std::string body) {
    net::ClientRequest request{std::move(method), std::move(target), engine_headers(), std::move(body)};
    ROOST_CO_TRY(response, co_await engine_.fetch(std::move(request)));
    if (response.status != 200) {
      co_return Error{ErrorKind::model_error,
                      fmt::format("the engine answered {}: {}", response.status, error_message(response)),
                      {},
                      {}};
    }
    co_return parse_json_object(response.body);
  }

  asio::awaitable<Result<void>> read_model_name() {
    ROOST_CO_TRY(models, co_await ask_engine("GET", "/v1/models", {}));
    if (const json::value* data = models.if_contains("data");
        data != nullptr && data->is_array() && !data->get_array().empty()) {
      report_.model = text_at(data->get_array().front().as_object(), "id");
    }
    co_return Result<void>{};
  }

  // The pool holds exactly what the worker will send before each agent's own message.
  asio::awaitable<Result<void>> create_pool() {
    ROOST_CO_TRY(tools, agent::tool_definitions(demo_tools()));
    json::object system;
    system["role"] = "system";
    system["content"] = demo_system_text();
    json::object body;
    body["messages"] = json::array{std::move(system)};
    body["tools"] = std::move(tools);
    body["unowned"] = true;
    ROOST_CO_TRY(pool, co_await ask_engine("POST", "/polykv/pools", json::serialize(body)));
    report_.pool_id = number_at(pool, "pool_id");
    report_.pool_len = number_at(pool, "prefix_len");
    report_.pool_prefilled = number_at(pool, "own_len");
    changed();
    co_return Result<void>{};
  }

  static asio::awaitable<void> run_agent(std::shared_ptr<Job> self, std::size_t index) {
    const auto start = Time::now();
    auto done = co_await self->run_turn(index);
    AgentReport& agent = self->report_.agents[index];
    agent.wall_s = since(start);
    if (!done) agent.error = done.error().message;
    agent.phase = agent.error.empty() ? AgentPhase::done : AgentPhase::failed;
    --self->running_;
    self->changed();
  }

  std::string turn_body(std::size_t index) const {
    const DemoRole role = demo_role(static_cast<int>(index));
    json::object body;
    body["prompt"] = role.prompt;
    body["system"] = demo_system_text();
    body["sessionId"] = report_.agents[index].session_id;
    body["tools"] = demo_tools();
    body["poolId"] = report_.pool_id;
    body["maxTokens"] = kAnswerTokens;
    body["temperature"] = 0;
    body["maxTurns"] = 4;
    if (role.runs_tool)
      body["toolChoice"] = json::object{{"name", "bash"}};
    else
      body["toolChoice"] = "none";
    return json::serialize(body);
  }

  asio::awaitable<Result<void>> run_turn(std::size_t index) {
    net::Headers headers{{"Content-Type", "application/json"}, {"Accept", "text/event-stream"}};
    headers.add("X-SH-Session-Id", report_.agents[index].session_id);
    net::ClientRequest request{"POST", "/v1/turn", std::move(headers), turn_body(index)};
    ROOST_CO_TRY(stream, co_await host_.open(std::move(request)));
    if (stream.status() != 200) {
      net::Response response;
      response.status = stream.status();
      ROOST_CO_TRY(body, co_await stream.read_all(1 << 20));
      response.body = std::move(body);
      co_return Error{ErrorKind::unavailable,
                      fmt::format("the host answered {}: {}", response.status, error_message(response)),
                      {},
                      {}};
    }
    net::SseParser parser;
    std::vector<net::SseEvent> events;
    while (true) {
      ROOST_CO_TRY(piece, co_await stream.next());
      if (!piece) break;
      parser.feed(*piece, events);
      for (const net::SseEvent& event : events) {
        auto data = parse_json_object(event.data);
        if (data) take_event(report_.agents[index], event.event, *data);
      }
      events.clear();
    }
    if (!ended(report_.agents[index]))
      co_return Error{ErrorKind::unavailable, "the stream ended without a last event", {}, {}};
    co_return Result<void>{};
  }

  bool ended(const AgentReport& agent) const {
    return agent.phase == AgentPhase::done || agent.phase == AgentPhase::failed;
  }

  void take_event(AgentReport& agent, const std::string& kind, const json::object& data) {
    if (kind == "turn") {
      agent.phase = AgentPhase::prefill;
    } else if (kind == "text") {
      agent.phase = AgentPhase::decode;
      agent.text += text_at(data, "delta");
    } else if (kind == "tool_use") {
      agent.phase = AgentPhase::tool;
      const json::value* args = data.if_contains("args");
      const std::string command =
          args != nullptr && args->is_object() ? text_at(args->get_object(), "command") : std::string();
      agent.tool = text_at(data, "name") + ": " + command;
    } else if (kind == "tool_result") {
      agent.phase = AgentPhase::prefill;
      agent.tool_output = text_at(data, "preview");
      const json::value* failed = data.if_contains("isError");
      agent.tool_failed = failed != nullptr && *failed == json::value(true);
    } else if (kind == "done") {
      take_sums(agent, data);
      agent.phase = AgentPhase::done;
    } else if (kind == "error") {
      agent.error = text_at(data, "errorMessage");
      if (agent.error.empty()) agent.error = text_at(data, "stopReason");
      agent.phase = AgentPhase::failed;
    } else {
      return;
    }
    changed();
  }

  static void take_sums(AgentReport& agent, const json::object& done) {
    if (const json::value* usage = done.if_contains("usage"); usage != nullptr && usage->is_object()) {
      agent.decoded = number_at(usage->get_object(), "output");
    }
    const json::value* engine = done.if_contains("engine");
    if (engine == nullptr || !engine->is_object()) return;
    const json::object& sums = engine->get_object();
    agent.shared = number_at(sums, "n_pool_shared");
    agent.prefilled = number_at(sums, "prompt_n");
    agent.prompt = agent.shared + agent.prefilled;
    agent.tps = real_at(sums, "tps");
  }

  // The engine's own figures for what still runs.
  asio::awaitable<void> poll_speed() {
    auto snapshot = co_await ask_engine("GET", "/polykv/tps", {});
    if (!snapshot) co_return;
    const json::value* sessions = snapshot->if_contains("sessions");
    if (sessions == nullptr || !sessions->is_array()) co_return;
    bool moved = false;
    for (const json::value& entry : sessions->get_array()) {
      if (!entry.is_object()) continue;
      const std::string id = text_at(entry.get_object(), "session_id");
      const double tps = real_at(entry.get_object(), "tps_ewma");
      for (AgentReport& agent : report_.agents) {
        if (agent.session_id != id || ended(agent) || tps <= 0) continue;
        agent.tps = tps;
        moved = true;
      }
    }
    if (moved) changed();
  }

  asio::awaitable<void> release() {
    for (const AgentReport& agent : report_.agents) {
      auto closed = co_await ask_engine("POST", "/sessions/" + agent.session_id + "/close", "{}");
      if (!closed) co_return;  // the engine is gone, and its sessions with it
    }
    auto released = co_await ask_engine("POST", fmt::format("/polykv/pools/{}/release", report_.pool_id), "{}");
    (void)released;
  }

  void changed() {
    if (on_change_) on_change_(report_);
  }

  asio::any_io_executor executor_;
  DemoSpec spec_;
  net::HttpClient engine_;
  net::HttpClient host_;
  std::function<void(const DemoReport&)> on_change_;
  DemoReport report_;
  int running_ = 0;
};

}  // namespace

asio::awaitable<Result<DemoReport>> run_demo_job(asio::any_io_executor executor, DemoSpec spec,
                                                 std::function<void(const DemoReport&)> on_change) {
  ROOST_CO_TRY(engine, net::parse_url(spec.engine_url));
  ROOST_CO_TRY(host, net::parse_url(spec.host_url));
  auto job = std::make_shared<Job>(executor, std::move(spec), std::move(engine), std::move(host), std::move(on_change));
  co_return co_await job->run();
}

}  // namespace roost::cli
