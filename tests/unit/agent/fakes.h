// The turn loop's neighbours, scripted: a model that answers what it is told to, sandboxes that remember what was run.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "../store/redis_fixture.h"
#include "agent/model_client.h"
#include "agent/sandbox_port.h"

namespace roost::test {

using agent::EngineReport;
using agent::ModelListener;
using agent::ModelReply;
using agent::ModelRequest;
using agent::ToolCall;
using agent::Usage;

inline asio::awaitable<void> until_aborted(AbortSource& abort) {
  while (!abort.requested()) co_await pause_for(std::chrono::milliseconds(1));
}

// One model call's part of the script.
struct ModelStep {
  std::vector<std::string> deltas;
  std::vector<ToolCall> calls;
  std::string finish_reason = "stop";
  std::optional<Error> error;           // after the deltas
  bool hangs = false;                   // after the deltas, until aborted
  std::chrono::milliseconds silent{0};  // before anything, after the request was accepted
};

class ScriptedModel final : public agent::ModelClient {
 public:
  asio::awaitable<Result<ModelReply>> complete(ModelRequest request, ModelListener& listener,
                                               AbortSource& abort) override {
    requests.push_back(request);
    if (steps.empty()) co_return Error{ErrorKind::model_unavailable, "the script is over", {}, 7};
    const ModelStep step = steps.front();
    steps.pop_front();
    if (step.error && step.deltas.empty() && !step.hangs) co_return *step.error;
    co_await listener.on_accepted();
    if (step.silent.count() > 0) co_await pause_for(step.silent);
    ModelReply reply;
    for (const std::string& delta : step.deltas) {
      co_await listener.on_text(delta);
      reply.text += delta;
    }
    if (step.hangs) {
      ++hanging;
      co_await until_aborted(abort);
      --hanging;
      co_return Error{ErrorKind::cancelled, "aborted", {}, {}};
    }
    if (step.error) co_return *step.error;
    reply.tool_calls = step.calls;
    reply.finish_reason = step.finish_reason;
    reply.usage = Usage{10, 5, 3, 0};
    EngineReport engine;
    engine.calls = 1;
    engine.pool_id = request.pool_id;
    engine.prompt_n = 10;
    engine.cache_n = 3;
    engine.n_pool_shared = request.pool_id ? 3 : 0;
    engine.predicted_n = 5;
    engine.predicted_ms = 50;
    reply.engine = engine;
    co_return reply;
  }

  void says(std::string text) { steps.push_back({{std::move(text)}, {}, "stop", {}, false, {}}); }
  void calls(std::vector<ToolCall> tool_calls) {
    steps.push_back({{}, std::move(tool_calls), "tool_calls", {}, false, {}});
  }
  void fails(Error error) { steps.push_back({{}, {}, "", std::move(error), false, {}}); }
  void hangs(std::string text) { steps.push_back({{std::move(text)}, {}, "", {}, true, {}}); }

  std::deque<ModelStep> steps;
  std::vector<ModelRequest> requests;
  int hanging = 0;
};

inline ToolCall bash(std::string id, std::string command) {
  return {std::move(id), "bash", json::serialize(json::object{{"command", std::move(command)}})};
}

// Commands: "hang" runs until it is aborted; "meet" ends when two of it run at once; anything else ends at once with
// outcomes[command], or its own text as output.
class FakeSandboxes final : public agent::SandboxPort {
 public:
  asio::awaitable<Result<std::unique_ptr<agent::SandboxSeat>>> take(std::string holder,
                                                                    std::string preferred) override {
    preferred_ids.push_back(preferred);
    holders.push_back(holder);
    if (refusal) co_return *refusal;
    ++seats;
    co_return std::unique_ptr<agent::SandboxSeat>(new Seat(*this));
  }

  class Seat final : public agent::SandboxSeat {
   public:
    explicit Seat(FakeSandboxes& owner) : owner_(owner) {}
    ~Seat() override { give_back(); }
    const std::string& sandbox_id() const override { return owner_.id; }
    asio::awaitable<void> release() override {
      give_back();
      co_return;
    }
    asio::awaitable<Result<sandbox::ExecOutcome>> exec(sandbox::ExecSpec spec, AbortSource* abort) override {
      const std::string command = spec.command;
      owner_.specs.push_back(std::move(spec));
      ++owner_.running;
      if (command == "hang") co_await until_aborted(*abort);
      if (command == "meet") {
        ++owner_.met;
        while (owner_.met < 2) co_await pause_for(std::chrono::milliseconds(1));
      }
      if (command == "later") co_await pause_for(std::chrono::milliseconds(30));
      --owner_.running;
      if (abort->requested()) co_return Error{ErrorKind::cancelled, "aborted", {}, {}};
      if (const auto failed = owner_.failures.find(command); failed != owner_.failures.end()) co_return failed->second;
      const auto known = owner_.outcomes.find(command);
      sandbox::ExecOutcome outcome;
      if (known != owner_.outcomes.end()) {
        outcome = known->second;
      } else {
        outcome.out = command;
      }
      co_return outcome;
    }

   private:
    void give_back() {
      if (!std::exchange(given_back_, true)) --owner_.seats;
    }
    FakeSandboxes& owner_;
    bool given_back_ = false;
  };

  std::string id = "box-1";
  std::optional<Error> refusal;
  std::map<std::string, sandbox::ExecOutcome> outcomes;
  std::map<std::string, Error> failures;
  std::vector<sandbox::ExecSpec> specs;
  std::vector<std::string> preferred_ids;
  std::vector<std::string> holders;
  int seats = 0;
  int running = 0;
  int met = 0;
};

}  // namespace roost::test
