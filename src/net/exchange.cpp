#include "net/exchange.h"

#include <fmt/format.h>

#include "net/response_head.h"

namespace roost::net {
namespace {

// Answers that have no body by definition.
bool status_without_body(int status) { return status < 200 || status == 204 || status == 304; }

Error twice() { return {ErrorKind::internal, "a handler answers its request exactly once", {}, {}}; }
Error not_streaming() { return {ErrorKind::internal, "write() and finish() need a start()ed answer", {}, {}}; }
Error left() { return {ErrorKind::cancelled, "the client has left", {}, {}}; }

}  // namespace

ConnectionExchange::ConnectionExchange(Wire& wire, asio::any_io_executor executor, Request request, bool http_1_0,
                                       std::function<bool()> may_keep, std::chrono::milliseconds write_timeout)
    : wire_(wire),
      executor_(std::move(executor)),
      request_(std::move(request)),
      may_keep_(std::move(may_keep)),
      write_timeout_(write_timeout),
      http_1_0_(http_1_0),
      head_only_(request_.method == "HEAD") {}

void ConnectionExchange::client_gone() {
  gone_ = true;
  aborted_.request("client_gone");
  wire_.wake();
}

std::string ConnectionExchange::form_head(int status, const Headers& headers, bool streamed, std::size_t length) {
  has_body_ = !head_only_ && !status_without_body(status);
  chunked_ = streamed && !http_1_0_;
  // A stream to an HTTP/1.0 client ends with the connection.
  const bool handler_closes = equal_ignoring_case(headers.get("Connection"), "close");
  closing_ = handler_closes || (streamed && http_1_0_) || !request_.keep_alive || !may_keep_();

  Framing framing;
  if (status_without_body(status)) {
    framing.body = Framing::Body::none;
  } else if (streamed) {
    framing.body = chunked_ ? Framing::Body::chunked : Framing::Body::until_close;
  } else {
    framing.body = Framing::Body::length;
    framing.length = length;
  }
  if (closing_) framing.connection = "close";
  if (!closing_ && http_1_0_) framing.connection = "keep-alive";
  return render_response_head(status, headers, framing);
}

awaitable<Result<void>> ConnectionExchange::put(Pieces pieces, State next) {
  if (gone_) {
    state_ = State::failed;
    co_return left();
  }
  // Failed unless the write ends well: a coroutine that is destroyed in the middle leaves half an answer.
  state_ = State::failed;
  Result<void> written = co_await wire_.write(pieces, write_timeout_);
  if (written) state_ = next;
  co_return written;
}

awaitable<Result<void>> ConnectionExchange::send(Response response) {
  if (started()) co_return twice();
  const std::string head = form_head(response.status, response.headers, false, response.body.size());
  Pieces pieces;
  pieces.add(head);
  if (has_body_) pieces.add(response.body);
  co_return co_await put(pieces, State::sent);
}

awaitable<Result<void>> ConnectionExchange::start(int status, Headers headers) {
  if (started()) co_return twice();
  pending_head_ = form_head(status, headers, true, 0);
  state_ = State::streaming;
  co_return Result<void>{};
}

awaitable<Result<void>> ConnectionExchange::write(std::string_view data) {
  if (state_ == State::failed) co_return left();
  if (state_ != State::streaming) co_return not_streaming();
  const std::string head = std::exchange(pending_head_, {});
  std::string size_line;
  Pieces pieces;
  pieces.add(head);
  // An empty chunk would end the stream, so an empty write only flushes the head.
  if (has_body_ && !data.empty()) {
    if (chunked_) size_line = fmt::format("{:x}\r\n", data.size());
    pieces.add(size_line);
    pieces.add(data);
    if (chunked_) pieces.add("\r\n");
  }
  co_return co_await put(pieces, State::streaming);
}

awaitable<Result<void>> ConnectionExchange::finish() {
  if (state_ == State::failed) co_return left();
  if (state_ != State::streaming) co_return not_streaming();
  const std::string head = std::exchange(pending_head_, {});
  Pieces pieces;
  pieces.add(head);
  if (has_body_ && chunked_) pieces.add("0\r\n\r\n");
  co_return co_await put(pieces, State::finished);
}

}  // namespace roost::net
