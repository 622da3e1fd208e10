// HTTP/1.1 client on Asio coroutines: a bounded pool of kept-alive connections to one origin; whole and streamed
// answers; TLS for https URLs. Every wait has a time-out. Used from one executor.
//
//   HttpClient client(executor, "http://127.0.0.1:8090", {});
//   ROOST_CO_TRY(reply, co_await client.fetch({"POST", "/tokenize", {}, body}));
//
//   ROOST_CO_TRY(stream, co_await client.open({"POST", "/v1/chat/completions", headers, body}, &abort));
//   while (true) { ROOST_CO_TRY(chunk, co_await stream.next()); if (!chunk) break; sse.feed(*chunk); }
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/abort.h"
#include "core/result.h"
#include "net/http.h"

namespace roost::net {

namespace asio = boost::asio;
using asio::awaitable;

struct Url {
  std::string scheme;  // "http" or "https"
  std::string host;
  std::uint16_t port = 80;
  std::string path;  // without a trailing '/', empty for the root
};
// "http://host:port/base" or Error invalid_request.
Result<Url> parse_url(std::string_view text);

// Not an aggregate on purpose: g++ 12 destroys an aggregate temporary twice when it is an argument inside a co_await.
struct ClientRequest {
  ClientRequest() = default;
  ClientRequest(std::string http_method, std::string path, Headers lines = {}, std::string content = {})
      : method(std::move(http_method)), target(std::move(path)), headers(std::move(lines)), body(std::move(content)) {}

  std::string method = "GET";
  std::string target = "/";  // appended to the origin's path
  Headers headers;           // Host and Content-Length are added
  std::string body;
};

struct ClientOptions {
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds idle_timeout{120'000};  // between two pieces of an answer
  std::size_t max_connections = 64;                 // more requests wait for a free one
  std::size_t max_body = 64 * 1024 * 1024;          // of a fetch()ed answer
  std::string ca_file{};                            // PEM file of authorities trusted besides the system's, for https
};

// The answer of open(): head read, body arriving. Destroying it before the end closes the connection; reading to the
// end gives the connection back to the pool.
class ResponseStream {
 public:
  struct Impl;
  explicit ResponseStream(std::unique_ptr<Impl> impl);
  ResponseStream(ResponseStream&&) noexcept;
  ResponseStream& operator=(ResponseStream&&) noexcept;
  ~ResponseStream();

  int status() const;
  const Headers& headers() const;
  // The next piece of the body as it arrives, decoded from its chunks; empty at the end. Errors as of HttpClient::open,
  // and they stay: a body that was cut short never looks complete.
  awaitable<Result<std::optional<std::string>>> next();
  // The rest of the body, at most `limit` bytes.
  awaitable<Result<std::string>> read_all(std::size_t limit);

 private:
  std::unique_ptr<Impl> impl_;
};

class HttpClient {
 public:
  HttpClient(asio::any_io_executor executor, Url origin, ClientOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;

  // Errors: unavailable (cannot connect, connection lost), timeout, cancelled (abort requested), body_too_large. An
  // answer with an error status is not an Error. A request on a kept-alive connection that the server closed meanwhile
  // is tried again once on a new one, if no byte of the answer had come. `abort` must outlive the ResponseStream; it is
  // asked until the answer has been read to its end.
  awaitable<Result<Response>> fetch(ClientRequest request, AbortSource* abort = nullptr);
  awaitable<Result<ResponseStream>> open(ClientRequest request, AbortSource* abort = nullptr);

  std::size_t connections() const;  // open ones, idle or not

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace roost::net
