// A command of the engine as one co_await.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "api/wakeup.h"
#include "core/abort.h"
#include "core/result.h"
#include "engine/engine.h"

namespace roost::api {

// What a command answers when the engine does not take it.
inline Error not_taken(const engine::Engine& engine) {
  if (engine.stopped()) return {ErrorKind::shutting_down, "the engine is shutting down", {}, {}};
  return {ErrorKind::server_full, "the engine's command queue is full", {}, {}};
}

// The answer to one command, filled on the engine thread, read on the asker's executor.
template <class T>
class Reply {
 public:
  explicit Reply(boost::asio::any_io_executor executor)
      : executor_(executor), wakeup_(std::make_shared<Wakeup>(executor)) {}

  // The command's completion.
  static engine::Completion<T> completion(const std::shared_ptr<Reply>& reply) {
    return [reply](Result<T> result) {
      boost::asio::post(reply->executor_, [reply, result = std::move(result)]() mutable {
        reply->result_.emplace(std::move(result));
        reply->wakeup_->signal();
      });
    };
  }

  // Waits for it; Error cancelled when `aborted` is requested first (`on_abort` runs then).
  static boost::asio::awaitable<Result<T>> wait(std::shared_ptr<Reply> reply, AbortSource& aborted,
                                                std::function<void()> on_abort) {
    const auto subscription = aborted.subscribe([wakeup = reply->wakeup_] { wakeup->signal(); });
    while (!reply->result_) {
      co_await reply->wakeup_->wait(Wakeup::Time::max());
      if (!reply->result_ && aborted.requested()) {
        if (on_abort) on_abort();
        co_return Error{ErrorKind::cancelled, "the client left", {}, {}};
      }
    }
    co_return std::move(*reply->result_);
  }

 private:
  boost::asio::any_io_executor executor_;
  std::shared_ptr<Wakeup> wakeup_;
  std::optional<Result<T>> result_;
};

}  // namespace roost::api
