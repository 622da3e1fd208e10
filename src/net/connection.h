// Connection: one client's socket, served request by request. Internal to net/; serve_connection() and HttpServer use
// it. Everything but the constructor is called on `executor`.
#pragma once

#include "net/exchange.h"
#include "net/http_server.h"
#include "net/request_reader.h"
#include "net/wire.h"

namespace roost::net {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `router` and `options` live longer than run().
  Connection(tcp::socket socket, asio::any_io_executor executor, const Router& router,
             const ConnectionOptions& options);

  // Until the connection is closed, or given back by before_next.
  awaitable<std::optional<tcp::socket>> run();

  // Answers carry Connection: close from now on; an idle connection is closed at once.
  void begin_drain();
  // Asks the running handler to stop; whatever is not a handler (a slow request, a lingering close) is cut.
  void abort(std::string_view reason);
  const asio::any_io_executor& executor() const { return executor_; }

 private:
  enum class Next { serve, close, give_back };
  enum class Fill { ok, closed, timeout };

  bool draining() const { return drain_begun_ || (options_.drain != nullptr && options_.drain->draining()); }

  awaitable<std::optional<tcp::socket>> serve_all();
  awaitable<Next> await_request(bool first);
  awaitable<bool> serve_request();
  awaitable<Result<RequestReader::Progress>> read_until(RequestReader::Progress wanted,
                                                        Wire::Clock::time_point deadline);
  awaitable<Fill> fill(Wire::Clock::time_point deadline);
  awaitable<bool> read_body(Wire::Clock::time_point deadline);
  awaitable<bool> answer();
  awaitable<bool> answer_without_handler(Response response);
  awaitable<void> call(const Handler& handler, ConnectionExchange& exchange);
  awaitable<void> answer_missing(ConnectionExchange& exchange);
  awaitable<void> refuse(Response response);
  awaitable<void> linger();
  Response render(const Error& error) const;
  Response no_route() const;
  ConnectionExchange make_exchange(std::function<bool()> may_keep);
  void finish_request();

  const asio::any_io_executor executor_;
  const Router& router_;
  const ConnectionOptions& options_;
  Wire wire_;
  RequestReader reader_;
  Router::Match match_;
  ConnectionExchange* exchange_ = nullptr;  // while a handler runs
  bool idle_ = false;                       // waiting for a request's first byte
  bool accepted_ = false;                   // on_head let a request in whose on_end is due
  bool drain_begun_ = false;
  bool aborted_ = false;
  std::string abort_reason_;
};

}  // namespace roost::net
