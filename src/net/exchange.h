// ConnectionExchange: the answer side of one request on a Wire. Internal to net/. Lives on the connection's executor.
//
// Order: idle → sent (send), or idle → streaming (start) → finished (finish). A failed write leaves it in `failed`.
#pragma once

#include <chrono>

#include "net/http_server.h"
#include "net/wire.h"

namespace roost::net {

class ConnectionExchange final : public Exchange {
 public:
  // `may_keep`: may the connection stay after this answer? Asked when the head is formed.
  ConnectionExchange(Wire& wire, asio::any_io_executor executor, Request request, bool http_1_0,
                     std::function<bool()> may_keep, std::chrono::milliseconds write_timeout);

  const Request& request() const override { return request_; }
  AbortSource& aborted() override { return aborted_; }
  asio::any_io_executor executor() override { return executor_; }
  awaitable<Result<void>> send(Response response) override;
  awaitable<Result<void>> start(int status, Headers headers) override;
  awaitable<Result<void>> write(std::string_view data) override;
  awaitable<Result<void>> finish() override;
  bool started() const override { return state_ != State::idle; }

  // The client has left: ends a pending write, later ones fail.
  void client_gone();
  // The whole answer is out.
  bool complete() const { return state_ == State::sent || state_ == State::finished; }
  // ... and the client was told that the connection stays.
  bool keeps_connection() const { return complete() && !closing_; }

  // Puts the route's parameters into the request.
  void set_params(std::vector<std::pair<std::string, std::string>> params) { request_.params = std::move(params); }

 private:
  enum class State { idle, streaming, sent, finished, failed };

  std::string form_head(int status, const Headers& headers, bool streamed, std::size_t length);
  awaitable<Result<void>> put(Pieces pieces, State next);

  Wire& wire_;
  const asio::any_io_executor executor_;
  Request request_;
  AbortSource aborted_;
  const std::function<bool()> may_keep_;
  const std::chrono::milliseconds write_timeout_;
  const bool http_1_0_;
  const bool head_only_;  // HEAD: no body follows
  State state_ = State::idle;
  bool chunked_ = false;
  bool has_body_ = true;
  bool closing_ = false;
  bool gone_ = false;
  std::string pending_head_;  // of a stream, until its first write
};

}  // namespace roost::net
