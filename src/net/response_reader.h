// ResponseReader: turns the bytes of a connection into one answer, its body in the pieces it came in. Pure: the caller
// moves the bytes. Internal to net/. Interim answers (1xx) are skipped.
#pragma once

#include <boost/asio/buffer.hpp>
#include <cstddef>
#include <memory>
#include <string>

#include "core/result.h"
#include "net/http.h"

namespace roost::net {

class ResponseReader {
 public:
  // `head_request`: the answer to HEAD has no body, whatever its headers say.
  explicit ResponseReader(bool head_request);
  ~ResponseReader();

  boost::asio::mutable_buffer space();
  void commit(std::size_t bytes);
  // Uses what has been committed. Error unavailable: the bytes are not HTTP, or the head is too large.
  Result<void> advance();
  // The server has ended the stream. Error unavailable when the answer was not complete.
  Result<void> end();

  bool any_byte() const { return any_byte_; }
  bool head_done() const { return head_done_; }
  int status() const { return status_; }
  const Headers& headers() const { return headers_; }
  // The body so far that was not taken yet.
  std::string take_body();
  bool done() const;
  // The connection can carry another request. Only once done().
  bool reusable() const;

 private:
  struct Parser;
  void start();
  Result<void> take_head();

  const bool head_request_;
  std::unique_ptr<Parser> parser_;
  Headers headers_;
  int status_ = 0;
  int interim_ = 0;
  bool any_byte_ = false;
  bool head_done_ = false;
};

}  // namespace roost::net
