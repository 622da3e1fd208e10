#include "net/connection.h"

#include <boost/asio/this_coro.hpp>
#include <exception>

#include "core/log.h"
#include "net/client_watch.h"

namespace roost::net {
namespace {

// After a refusal the client may still be sending: what is read and dropped so that it sees the answer, not a reset.
constexpr std::size_t kLingerBytes = 64 * 1024;
constexpr auto kLingerTime = std::chrono::seconds(2);

std::string describe(std::exception_ptr exception) {
  try {
    std::rethrow_exception(std::move(exception));
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

}  // namespace

Connection::Connection(tcp::socket socket, asio::any_io_executor executor, const Router& router,
                       const ConnectionOptions& options)
    : executor_(std::move(executor)),
      router_(router),
      options_(options),
      wire_(std::move(socket), executor_),
      reader_(options.max_head, options.max_body) {}

awaitable<std::optional<tcp::socket>> Connection::run() {
  std::exception_ptr thrown;
  try {
    co_return co_await serve_all();
  } catch (...) {
    thrown = std::current_exception();
  }
  log::error("connection_failed", {{"what", describe(thrown)}});
  finish_request();
  wire_.close();
  co_return std::nullopt;
}

awaitable<std::optional<tcp::socket>> Connection::serve_all() {
  Drain::Subscription subscription;
  if (options_.drain != nullptr) {
    subscription = options_.drain->subscribe(executor_, [weak = weak_from_this()] {
      if (auto self = weak.lock()) self->begin_drain();
    });
  }
  bool first = true;
  while (!aborted_) {
    const Next next = co_await await_request(first);
    if (next == Next::give_back) co_return std::move(wire_.socket());
    if (next == Next::close) break;
    first = false;
    const bool keep = co_await serve_request();
    finish_request();
    if (!keep) break;
    reader_.next();
    if (options_.when_idle && !reader_.has_bytes() && options_.when_idle() == NextRequest::give_back) {
      co_return std::move(wire_.socket());
    }
  }
  wire_.shutdown_send();
  // Closing with unread bytes would reset the connection, and the client could lose the end of the last answer.
  if (!aborted_ && (reader_.has_bytes() || wire_.peek().bytes > 0)) co_await linger();
  wire_.close();
  co_return std::nullopt;
}

void Connection::begin_drain() {
  drain_begun_ = true;
  if (idle_) wire_.wake();
}

void Connection::abort(std::string_view reason) {
  aborted_ = true;
  abort_reason_ = reason;
  if (exchange_ != nullptr) {
    exchange_->aborted().request(std::string(reason));
  } else {
    wire_.wake();
  }
}

awaitable<Connection::Next> Connection::await_request(bool first) {
  if (reader_.has_bytes()) co_return Next::serve;
  // A request that has arrived is served even while draining.
  while (true) {
    const Wire::Read seen = wire_.peek();
    if (!seen.open) co_return Next::close;
    if (seen.bytes > 0) break;
    if (draining() || aborted_) co_return Next::close;
    idle_ = true;
    const Wire::Ready ready = co_await wire_.wait(tcp::socket::wait_read, Wire::Clock::now() + options_.idle_timeout);
    idle_ = false;
    if (ready == Wire::Ready::timeout || ready == Wire::Ready::failed) co_return Next::close;
  }
  if (first || !options_.before_next) co_return Next::serve;
  const NextRequest decision = co_await options_.before_next(wire_.socket());
  co_return decision == NextRequest::give_back ? Next::give_back : Next::serve;
}

// One request and its answer. False: the connection ends here.
awaitable<bool> Connection::serve_request() {
  const auto deadline = Wire::Clock::now() + options_.read_timeout;
  const Result<RequestReader::Progress> progress = co_await read_until(RequestReader::Progress::head, deadline);
  if (!progress) {
    co_await refuse(render(progress.error()));
    co_return false;
  }
  if (*progress == RequestReader::Progress::need_more) co_return false;  // the client left
  bool complete = *progress == RequestReader::Progress::complete;

  std::optional<Response> refusal;
  if (options_.on_head) refusal = options_.on_head(reader_.request());
  if (refusal) {
    if (!complete) {
      const Result<RequestReader::Progress> rest = reader_.advance();
      complete = rest && *rest == RequestReader::Progress::complete;
    }
    if (complete) co_return co_await answer_without_handler(std::move(*refusal));
    co_await refuse(std::move(*refusal));
    co_return false;
  }
  accepted_ = true;
  match_ = router_.match(reader_.request().method, reader_.request().path);
  if (!complete) complete = co_await read_body(deadline);
  if (!complete) co_return false;
  if (match_.handler == nullptr) co_return co_await answer_without_handler(no_route());
  co_return co_await answer();
}

// False: it was refused, or the client left.
awaitable<bool> Connection::read_body(Wire::Clock::time_point deadline) {
  Result<RequestReader::Progress> progress = reader_.advance();
  if (progress && *progress != RequestReader::Progress::complete) {
    // No use to let a body come that nothing will read.
    if (match_.handler == nullptr) {
      co_await refuse(no_route());
      co_return false;
    }
    if (reader_.expects_continue()) {
      Pieces pieces;
      pieces.add("HTTP/1.1 100 Continue\r\n\r\n");
      const Result<void> written = co_await wire_.write(pieces, options_.write_timeout);
      if (!written) co_return false;
    }
    progress = co_await read_until(RequestReader::Progress::complete, deadline);
  }
  if (!progress) {
    co_await refuse(render(progress.error()));
    co_return false;
  }
  co_return *progress == RequestReader::Progress::complete;
}

// need_more: the client left before that.
awaitable<Result<RequestReader::Progress>> Connection::read_until(RequestReader::Progress wanted,
                                                                  Wire::Clock::time_point deadline) {
  while (true) {
    Result<RequestReader::Progress> progress = reader_.advance();
    if (!progress || *progress >= wanted) co_return progress;
    const Fill filled = co_await fill(deadline);
    if (filled == Fill::timeout) {
      co_return Error{ErrorKind::request_timeout, "the request did not arrive in time", {}, {}};
    }
    if (filled == Fill::closed) co_return RequestReader::Progress::need_more;
  }
}

awaitable<Connection::Fill> Connection::fill(Wire::Clock::time_point deadline) {
  while (!aborted_) {
    const Wire::Read read = wire_.read_now(reader_.space());
    if (!read.open) co_return Fill::closed;
    if (read.bytes > 0) {
      reader_.commit(read.bytes);
      // Bytes that keep trickling in must not push the deadline out.
      co_return Wire::Clock::now() < deadline ? Fill::ok : Fill::timeout;
    }
    const Wire::Ready ready = co_await wire_.wait(tcp::socket::wait_read, deadline);
    if (ready == Wire::Ready::timeout) co_return Fill::timeout;
    if (ready == Wire::Ready::failed) co_return Fill::closed;
  }
  co_return Fill::closed;
}

ConnectionExchange Connection::make_exchange(std::function<bool()> may_keep) {
  return ConnectionExchange(wire_, executor_, std::move(reader_.request()), reader_.http_1_0(), std::move(may_keep),
                            options_.write_timeout);
}

awaitable<bool> Connection::answer() {
  ConnectionExchange exchange = make_exchange([this] { return !draining() && !aborted_; });
  exchange.set_params(std::move(match_.params));
  if (aborted_) exchange.aborted().request(abort_reason_);
  exchange_ = &exchange;
  {
    ClientWatch watch(wire_.socket(), executor_, [&exchange] { exchange.client_gone(); });
    co_await call(*match_.handler, exchange);
  }
  exchange_ = nullptr;
  if (!exchange.started()) co_await answer_missing(exchange);
  co_return exchange.keeps_connection();
}

awaitable<bool> Connection::answer_without_handler(Response response) {
  ConnectionExchange exchange = make_exchange([this] { return !draining() && !aborted_; });
  (void)co_await exchange.send(std::move(response));
  co_return exchange.keeps_connection();
}

awaitable<void> Connection::call(const Handler& handler, ConnectionExchange& exchange) {
  std::exception_ptr thrown;
  try {
    if (options_.before_handler) co_await options_.before_handler(exchange);
    if (!exchange.started() && !exchange.aborted().requested()) co_await handler(exchange);
  } catch (...) {
    thrown = std::current_exception();
  }
  if (!thrown) co_return;
  log::error("handler_threw",
             {{"method", exchange.request().method}, {"path", exchange.request().path}, {"what", describe(thrown)}});
  if (exchange.started()) co_return;
  Response response = render({ErrorKind::internal, "the server failed at this request", {}, {}});
  response.headers.set("Connection", "close");
  (void)co_await exchange.send(std::move(response));
}

// The handler has returned without an answer.
awaitable<void> Connection::answer_missing(ConnectionExchange& exchange) {
  Error error{ErrorKind::internal, "the server has no answer to this request", {}, {}};
  if (aborted_) error = {ErrorKind::shutting_down, "the server is shutting down", {}, {}};
  if (!exchange.aborted().requested()) {
    log::error("handler_without_answer", {{"method", exchange.request().method}, {"path", exchange.request().path}});
  }
  (void)co_await exchange.send(render(error));
}

// Answers a request that is not read to its end, and waits a little for the client to take the answer.
awaitable<void> Connection::refuse(Response response) {
  ConnectionExchange exchange = make_exchange([] { return false; });
  const Result<void> sent = co_await exchange.send(std::move(response));
  if (!sent) co_return;
  wire_.shutdown_send();
  co_await linger();
}

awaitable<void> Connection::linger() {
  const auto deadline = Wire::Clock::now() + kLingerTime;
  std::array<char, 8 * 1024> dropped;
  std::size_t total = 0;
  while (!aborted_ && total < kLingerBytes) {
    const Wire::Read read = wire_.read_now(asio::buffer(dropped));
    if (!read.open) co_return;
    total += read.bytes;
    if (read.bytes > 0) continue;
    const Wire::Ready ready = co_await wire_.wait(tcp::socket::wait_read, deadline);
    if (ready != Wire::Ready::ready) co_return;
  }
}

Response Connection::render(const Error& error) const {
  return options_.render_error ? options_.render_error(error) : default_error_response(error);
}

Response Connection::no_route() const {
  Response response = render(match_.error);
  if (!match_.allow.empty()) response.headers.set("Allow", match_.allow);
  return response;
}

void Connection::finish_request() {
  match_ = {};
  if (std::exchange(accepted_, false) && options_.on_end) options_.on_end();
}

awaitable<std::optional<tcp::socket>> serve_connection(tcp::socket socket, const Router& router,
                                                       const ConnectionOptions& options) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const auto connection = std::make_shared<Connection>(std::move(socket), executor, router, options);
  co_return co_await connection->run();
}

}  // namespace roost::net
