#include "net/request_reader.h"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>

#include "core/limits.h"

namespace roost::net {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr std::size_t kReadBytes = 64 * 1024;

Error bad_request(std::string message) { return {ErrorKind::invalid_request, std::move(message), {}, {}}; }

std::string text(beast::string_view view) { return std::string(view.data(), view.size()); }

bool has_forbidden_byte(std::string_view value) {
  return value.find_first_of(std::string_view("\0\r\n", 3)) != std::string_view::npos;
}

}  // namespace

struct RequestReader::Parser {
  beast::flat_buffer buffer;
  std::optional<http::request_parser<http::string_body>> message;

  void start(std::size_t max_head, std::size_t max_body) {
    message.emplace();
    message->header_limit(static_cast<std::uint32_t>(max_head));
    message->body_limit(max_body);
  }
};

RequestReader::RequestReader(std::size_t max_head, std::size_t max_body)
    : max_head_(max_head), max_body_(max_body), parser_(std::make_unique<Parser>()) {
  parser_->start(max_head_, max_body_);
}

RequestReader::~RequestReader() = default;

boost::asio::mutable_buffer RequestReader::space() { return parser_->buffer.prepare(kReadBytes); }
void RequestReader::commit(std::size_t bytes) { parser_->buffer.commit(bytes); }

bool RequestReader::has_bytes() {
  if (!parser_->message->got_some()) skip_empty_lines();
  return parser_->buffer.size() > 0;
}

// Some clients send a line break behind a body; it belongs to no request.
void RequestReader::skip_empty_lines() {
  const auto data = parser_->buffer.data();
  const std::string_view bytes(static_cast<const char*>(data.data()), data.size());
  parser_->buffer.consume(std::min(bytes.find_first_not_of("\r\n"), bytes.size()));
}

Result<RequestReader::Progress> RequestReader::advance() {
  auto& message = *parser_->message;
  if (!message.got_some()) skip_empty_lines();
  while (parser_->buffer.size() > 0 && !message.is_done()) {
    const std::size_t before = parser_->buffer.size();
    ROOST_TRY_VOID(parse_some());
    if (message.is_header_done() && !head_taken_) {
      ROOST_TRY_VOID(take_head());
      message.eager(true);
      if (!message.is_done()) return Progress::head;
      break;
    }
    if (parser_->buffer.size() == before) break;
  }
  if (message.is_done()) {
    request_.body = std::move(message.get().body());
    return Progress::complete;
  }
  // A chunk head or a trailer that does not end; a head has its own limit.
  if (parser_->buffer.size() > max_head_) return bad_request("a chunk of the body is malformed");
  return Progress::need_more;
}

Result<void> RequestReader::parse_some() {
  beast::error_code ec;
  const std::size_t used = parser_->message->put(parser_->buffer.data(), ec);
  parser_->buffer.consume(used);
  if (!ec || ec == http::error::need_more) return {};
  if (ec == http::error::header_limit) {
    return {ErrorKind::head_too_large, "the request's head is larger than " + std::to_string(max_head_) + " bytes"};
  }
  if (ec == http::error::body_limit || ec == http::error::buffer_overflow) {
    return {ErrorKind::body_too_large, "the body is larger than " + std::to_string(max_body_) + " bytes"};
  }
  return bad_request("this is not valid HTTP/1.1: " + ec.message());
}

Result<void> RequestReader::take_head() {
  head_taken_ = true;
  const auto& message = parser_->message->get();
  if (message.version() != 10 && message.version() != 11) {
    return bad_request("only HTTP/1.0 and HTTP/1.1 are understood");
  }
  http_1_0_ = message.version() == 10;
  request_.method = text(message.method_string());
  request_.keep_alive = parser_->message->keep_alive();
  std::size_t hosts = 0;
  for (const auto& field : message) {
    const std::string_view value(field.value().data(), field.value().size());
    if (has_forbidden_byte(value)) return bad_request("a header value holds a forbidden byte");
    if (field.name() == http::field::host) ++hosts;
    request_.headers.add(text(field.name_string()), std::string(value));
  }
  if (request_.headers.size() > limits::kHttpHeaders) {
    return {ErrorKind::head_too_large, "more than " + std::to_string(limits::kHttpHeaders) + " header lines"};
  }
  if (hosts > 1 || (hosts == 0 && !http_1_0_)) return bad_request("a request has exactly one Host header");
  // Any other coding, or chunked twice, would leave the body's end to interpretation: the root of request smuggling.
  if (const std::string* coding = request_.headers.find("Transfer-Encoding")) {
    if (http_1_0_ || !equal_ignoring_case(*coding, "chunked") || !parser_->message->chunked()) {
      return bad_request("the only Transfer-Encoding understood is 'chunked', in HTTP/1.1");
    }
  }
  expects_continue_ = !http_1_0_ && equal_ignoring_case(request_.headers.get("Expect"), "100-continue");
  return set_target(request_, text(message.target()));
}

void RequestReader::next() {
  parser_->start(max_head_, max_body_);
  request_ = {};
  head_taken_ = http_1_0_ = expects_continue_ = false;
}

}  // namespace roost::net
