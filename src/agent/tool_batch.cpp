#include "agent/tool_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <deque>

#include "core/utf8.h"

namespace roost::agent {
namespace {

struct Batch {
  explicit Batch(const asio::any_io_executor& executor) : wake(executor, asio::steady_timer::time_point::max()) {}
  std::vector<ToolOutcome> outcomes;
  std::deque<std::size_t> finished;  // not yet told
  asio::steady_timer wake;           // cancelled when `finished` grows
};

// The batch outlives every call: its owner waits for all of them.
asio::awaitable<void> run_one(Batch& batch, std::size_t index, ToolCall call, ToolContext context, AbortSource& abort) {
  ToolOutcome outcome = co_await run_tool(std::move(call), std::move(context), abort);
  batch.outcomes[index] = std::move(outcome);
  batch.finished.push_back(index);
  batch.wake.cancel();
}

ToolOutcome not_offered(const ToolCall& call, const std::vector<ToolSchema>& offered) {
  std::string known;
  for (const ToolSchema& tool : offered) known += (known.empty() ? "" : ", ") + tool.name;
  if (known.empty()) known = "none";
  return {fmt::format("there is no tool '{}'; known: {}", utf8_prefix(call.name, 64), known), true};
}

}  // namespace

asio::awaitable<std::vector<ToolOutcome>> run_tool_batch(asio::any_io_executor executor, std::vector<ToolCall> calls,
                                                         std::vector<ToolSchema> offered, ToolContext context,
                                                         AbortSource& abort, OnToolFinished on_finished) {
  Batch batch(executor);
  batch.outcomes.resize(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (context.seat == nullptr || std::ranges::find(offered, calls[i].name, &ToolSchema::name) == offered.end()) {
      batch.outcomes[i] = not_offered(calls[i], offered);
      batch.finished.push_back(i);
      continue;
    }
    asio::co_spawn(executor, run_one(batch, i, calls[i], context, abort), asio::detached);
  }
  for (std::size_t told = 0; told < calls.size();) {
    if (batch.finished.empty()) {
      co_await batch.wake.async_wait(asio::as_tuple(asio::use_awaitable));
      continue;
    }
    const std::size_t index = batch.finished.front();
    batch.finished.pop_front();
    ++told;
    co_await on_finished(index, batch.outcomes[index]);
  }
  co_return std::move(batch.outcomes);
}

}  // namespace roost::agent
