#include "net/response_reader.h"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/none.hpp>
#include <boost/optional/optional.hpp>
#include <optional>

#include "core/limits.h"

namespace roost::net {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr std::size_t kReadBytes = 64 * 1024;
constexpr int kInterimAnswers = 8;

// A Beast body that only collects: unlike string_body it trusts no announced length.
struct PieceBody {
  using value_type = std::string;
  class reader {
   public:
    template <bool isRequest, class Fields>
    reader(http::header<isRequest, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>&, beast::error_code& ec) { ec = {}; }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, beast::error_code& ec) {
      ec = {};
      std::size_t total = 0;
      for (auto it = boost::asio::buffer_sequence_begin(buffers); it != boost::asio::buffer_sequence_end(buffers);
           ++it) {
        const boost::asio::const_buffer piece = *it;
        body_.append(static_cast<const char*>(piece.data()), piece.size());
        total += piece.size();
      }
      return total;
    }
    void finish(beast::error_code& ec) { ec = {}; }

   private:
    value_type& body_;
  };
};

Error bad_answer(const std::string& why) {
  return {ErrorKind::unavailable, "the server's answer is not valid HTTP/1.1: " + why, {}, {}};
}

}  // namespace

struct ResponseReader::Parser {
  beast::flat_buffer buffer;
  std::optional<http::response_parser<PieceBody>> message;
};

ResponseReader::ResponseReader(bool head_request) : head_request_(head_request), parser_(std::make_unique<Parser>()) {
  start();
}

ResponseReader::~ResponseReader() = default;

void ResponseReader::start() {
  auto& message = parser_->message.emplace();
  message.header_limit(limits::kHttpAnswerHeadBytes);
  message.body_limit(boost::none);
  message.skip(head_request_);
}

boost::asio::mutable_buffer ResponseReader::space() { return parser_->buffer.prepare(kReadBytes); }

void ResponseReader::commit(std::size_t bytes) {
  parser_->buffer.commit(bytes);
  if (bytes > 0) any_byte_ = true;
}

Result<void> ResponseReader::advance() {
  while (parser_->buffer.size() > 0 && !parser_->message->is_done()) {
    beast::error_code ec;
    const std::size_t used = parser_->message->put(parser_->buffer.data(), ec);
    parser_->buffer.consume(used);
    if (ec && ec != http::error::need_more) return bad_answer(ec.message());
    if (parser_->message->is_header_done() && !head_done_) {
      ROOST_TRY_VOID(take_head());
    } else if (used == 0) {
      break;
    }
  }
  if (!done() && parser_->buffer.size() > limits::kHttpAnswerHeadBytes) return bad_answer("a chunk does not end");
  return {};
}

Result<void> ResponseReader::take_head() {
  const auto& message = parser_->message->get();
  const int status = static_cast<int>(message.result_int());
  if (status >= 100 && status < 200 && status != 101) {
    if (++interim_ > kInterimAnswers) return bad_answer("too many interim answers");
    start();
    return {};
  }
  head_done_ = true;
  status_ = status;
  for (const auto& field : message) {
    headers_.add(std::string(field.name_string().data(), field.name_string().size()),
                 std::string(field.value().data(), field.value().size()));
  }
  parser_->message->eager(true);
  return {};
}

Result<void> ResponseReader::end() {
  beast::error_code ec = http::error::partial_message;
  // Only an answer without any length may end with its connection.
  if (head_done_ && !done()) parser_->message->put_eof(ec);
  if (done()) return {};
  return {ErrorKind::unavailable, any_byte_ ? "the server closed the connection in the middle of its answer"
                                            : "the server closed the connection without an answer"};
}

std::string ResponseReader::take_body() { return std::exchange(parser_->message->get().body(), {}); }

bool ResponseReader::done() const { return head_done_ && parser_->message->is_done(); }

bool ResponseReader::reusable() const {
  return done() && parser_->message->keep_alive() && parser_->buffer.size() == 0;
}

}  // namespace roost::net
