// RequestReader: turns the bytes of a connection into requests, within limits. Pure: the caller moves the bytes.
// Internal to net/; this is where Beast's parser is used.
//
//   read into space(), commit(n), advance() until it says head, then until it says complete; take the request; next().
//
// Bytes behind a complete request stay and belong to the next one.
#pragma once

#include <boost/asio/buffer.hpp>
#include <cstddef>
#include <memory>

#include "core/result.h"
#include "net/http.h"

namespace roost::net {

class RequestReader {
 public:
  RequestReader(std::size_t max_head, std::size_t max_body);
  ~RequestReader();

  boost::asio::mutable_buffer space();
  void commit(std::size_t bytes);
  // Bytes that no request has used yet.
  bool has_bytes();

  enum class Progress { need_more, head, complete };
  // Errors: invalid_request, head_too_large, body_too_large. After one the reader is of no more use.
  Result<Progress> advance();

  // From Progress::head on; the body from Progress::complete on.
  Request& request() { return request_; }
  bool http_1_0() const { return http_1_0_; }
  // The client waits for "100 Continue" before it sends the body.
  bool expects_continue() const { return expects_continue_; }

  // Forgets the request.
  void next();

 private:
  struct Parser;

  void skip_empty_lines();
  Result<void> parse_some();
  Result<void> take_head();

  const std::size_t max_head_;
  const std::size_t max_body_;
  std::unique_ptr<Parser> parser_;
  Request request_;
  bool head_taken_ = false;
  bool http_1_0_ = false;
  bool expects_continue_ = false;
};

}  // namespace roost::net
