#include "store/session_writer.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>

namespace roost::store {

struct SessionWriter::State {
  State(asio::any_io_executor ex, SessionLog l)
      : log(std::move(l)), executor(ex), idle(std::move(ex), asio::steady_timer::time_point::max()) {}

  // Writes the queue as one batch.
  asio::awaitable<void> write_batch(TurnTotals totals) {
    std::vector<LogEntry> batch = std::exchange(queue, {});
    const std::uint64_t count = batch.size();
    auto done = co_await log.append(session_id, lease_value, last_position, std::move(batch), std::move(totals));
    if (done.ok()) {
      last_position += count;
    } else {
      failed = std::move(done).error();
      queue.clear();
    }
  }

  static asio::awaitable<void> pump(std::shared_ptr<State> self) {
    while (!self->queue.empty() && !self->failed) {
      TurnTotals nothing;
      co_await self->write_batch(std::move(nothing));
    }
    self->pumping = false;
    self->idle.cancel();
  }

  SessionLog log;
  asio::any_io_executor executor;
  asio::steady_timer idle;  // cancelled when the pump has stopped
  std::string session_id;
  std::string lease_value;
  std::uint64_t last_position = 0;
  const Clock* clock = nullptr;
  std::vector<LogEntry> queue;
  std::optional<Error> failed;
  bool pumping = false;
};

SessionWriter::SessionWriter(asio::any_io_executor executor, SessionLog log, std::string session_id,
                             std::string lease_value, std::uint64_t last_position, const Clock& clock)
    : state_(std::make_shared<State>(std::move(executor), std::move(log))) {
  state_->session_id = std::move(session_id);
  state_->lease_value = std::move(lease_value);
  state_->last_position = last_position;
  state_->clock = &clock;
}

void SessionWriter::append(std::string kind, std::string json) {
  if (state_->failed) return;  // flush() tells
  LogEntry entry;
  entry.time_ms = static_cast<std::int64_t>(state_->clock->unix_seconds() * 1000.0);
  entry.kind = std::move(kind);
  entry.json = std::move(json);
  state_->queue.push_back(std::move(entry));
  if (state_->pumping) return;
  state_->pumping = true;
  asio::co_spawn(state_->executor, State::pump(state_), asio::detached);
}

asio::awaitable<Result<void>> SessionWriter::flush(TurnTotals totals) {
  const auto state = state_;
  while (state->pumping) co_await state->idle.async_wait(asio::as_tuple(asio::use_awaitable));
  if (!state->failed) co_await state->write_batch(std::move(totals));
  if (state->failed) co_return *state->failed;
  co_return Result<void>{};
}

}  // namespace roost::store
