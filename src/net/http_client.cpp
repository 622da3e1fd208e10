#include "net/http_client.h"

#include "core/log.h"
#include "net/connection_pool.h"
#include "net/response_head.h"
#include "net/response_reader.h"
#include "net/transport.h"

namespace roost::net {
namespace {

Error cancelled() { return {ErrorKind::cancelled, "the request was cancelled", {}, {}}; }

std::string host_header(const Url& origin) {
  std::string host = origin.host.find(':') == std::string::npos ? origin.host : "[" + origin.host + "]";
  const std::uint16_t usual = origin.scheme == "https" ? 443 : 80;
  return origin.port == usual ? host : host + ":" + std::to_string(origin.port);
}

std::string render_request_head(const Url& origin, const ClientRequest& request) {
  std::string out = request.method + " " + origin.path + request.target + " HTTP/1.1\r\n";
  if (request.headers.find("Host") == nullptr) append_header(out, "Host", host_header(origin));
  for (const auto& [name, value] : request.headers) {
    if (!equal_ignoring_case(name, "Content-Length") && !equal_ignoring_case(name, "Transfer-Encoding")) {
      append_header(out, name, value);
    }
  }
  const bool has_body = !request.body.empty() || request.method == "POST" || request.method == "PUT";
  if (has_body) append_header(out, "Content-Length", std::to_string(request.body.size()));
  out += "\r\n";
  return out;
}

// A space or a control byte would end the request line early.
bool is_token(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= ' ' || c == 0x7f) return false;
  }
  return !text.empty();
}

bool closes(const Headers& headers) { return equal_ignoring_case(headers.get("Connection"), "close"); }

}  // namespace

// One answer being read. Owns its place in the pool until the answer is complete.
struct ResponseStream::Impl {
  Impl(ConnectionPool::Lease taken, bool head_request, AbortSource* source, std::chrono::milliseconds idle)
      : lease(std::move(taken)), reader(head_request), abort(source), idle_timeout(idle) {
    watch();
  }

  // An abort closes the connection, which ends whatever waits on it.
  void watch() {
    subscription.reset();
    if (abort != nullptr) subscription = abort->subscribe([this] { lease->transport().close(); });
  }
  bool aborted() const { return abort != nullptr && abort->requested(); }
  Error explain(Error error) const { return aborted() ? cancelled() : std::move(error); }

  awaitable<Result<void>> connect(std::chrono::milliseconds timeout);
  awaitable<Result<void>> exchange(const std::string& head, const std::string& body);
  awaitable<Result<void>> read_more();
  void release_if_done();

  std::optional<ConnectionPool::Lease> lease;
  ResponseReader reader;
  AbortSource* abort;
  AbortSource::Subscription subscription;
  std::chrono::milliseconds idle_timeout;
  std::optional<Error> failure;  // reported again by every later next()
  bool client_closes = false;    // the request said Connection: close
};

struct HttpClient::Impl {
  asio::any_io_executor executor;
  Url origin;
  ClientOptions options;
  std::shared_ptr<asio::ssl::context> tls;
  std::shared_ptr<ConnectionPool> pool;
};

awaitable<Result<void>> ResponseStream::Impl::connect(std::chrono::milliseconds timeout) {
  if (aborted()) co_return cancelled();
  Result<void> connected = co_await lease->transport().connect(timeout);
  if (!connected) co_return explain(std::move(connected).error());
  co_return connected;
}

// Sends the request and reads the head of the answer.
awaitable<Result<void>> ResponseStream::Impl::exchange(const std::string& head, const std::string& body) {
  if (aborted()) co_return cancelled();
  const Result<void> written = co_await lease->transport().write(head, body, idle_timeout);
  if (!written && written.error().kind != ErrorKind::unavailable) co_return explain(written.error());
  if (!written) client_closes = true;  // the answer to half a request may be there; the connection is of no more use
  while (!reader.head_done()) {
    const Result<void> more = co_await read_more();
    if (!more) co_return more;
  }
  co_return Result<void>{};
}

awaitable<Result<void>> ResponseStream::Impl::read_more() {
  const Result<std::size_t> bytes = co_await lease->transport().read_some(reader.space(), idle_timeout);
  if (!bytes) co_return explain(bytes.error());
  if (*bytes == 0) co_return reader.end();
  reader.commit(*bytes);
  co_return reader.advance();
}

void ResponseStream::Impl::release_if_done() {
  if (!lease || !reader.done()) return;
  subscription.reset();
  if (reader.reusable() && !client_closes && !aborted()) lease->keep();
  lease.reset();
}

ResponseStream::ResponseStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ResponseStream::ResponseStream(ResponseStream&&) noexcept = default;
ResponseStream& ResponseStream::operator=(ResponseStream&&) noexcept = default;
ResponseStream::~ResponseStream() = default;

int ResponseStream::status() const { return impl_->reader.status(); }
const Headers& ResponseStream::headers() const { return impl_->reader.headers(); }

awaitable<Result<std::optional<std::string>>> ResponseStream::next() {
  Impl& impl = *impl_;
  if (impl.failure) co_return *impl.failure;
  while (true) {
    std::string piece = impl.reader.take_body();
    impl.release_if_done();
    if (!piece.empty()) co_return std::optional<std::string>(std::move(piece));
    if (impl.reader.done()) co_return std::optional<std::string>();
    Result<void> more = co_await impl.read_more();
    if (!more) {
      impl.failure = more.error();
      impl.subscription.reset();
      impl.lease.reset();
      co_return *impl.failure;
    }
  }
}

awaitable<Result<std::string>> ResponseStream::read_all(std::size_t limit) {
  std::string body;
  while (true) {
    Result<std::optional<std::string>> piece = co_await next();
    if (!piece) co_return std::move(piece).error();
    if (!piece->has_value()) co_return body;
    if (body.size() + (*piece)->size() > limit) {
      co_return Error{
          ErrorKind::body_too_large, "the server's answer is larger than " + std::to_string(limit) + " bytes", {}, {}};
    }
    body += **piece;
  }
}

namespace {

template <class StreamImpl, class ClientImpl>
awaitable<Result<ResponseStream>> open_on(std::shared_ptr<ClientImpl> client, ClientRequest request,
                                          AbortSource* abort) {
  if (!is_token(request.method) || !is_token(request.target)) {
    co_return Error{
        ErrorKind::invalid_request, "the method or target of a request holds a space or control byte", {}, {}};
  }
  const ClientOptions& options = client->options;
  const std::string head = render_request_head(client->origin, request);
  Result<ConnectionPool::Lease> lease = co_await client->pool->acquire(abort, options.idle_timeout);
  if (!lease) co_return std::move(lease).error();

  auto stream = std::make_unique<StreamImpl>(std::move(*lease), request.method == "HEAD", abort, options.idle_timeout);
  stream->client_closes = closes(request.headers);
  const bool reused = stream->lease->reused();
  Result<void> answered = Result<void>{};
  if (reused) {
    answered = co_await stream->exchange(head, request.body);
    // The server closed the kept connection before it read the request.
    if (!answered && answered.error().kind == ErrorKind::unavailable && !stream->reader.any_byte()) {
      stream->lease->replace();
      stream->client_closes = closes(request.headers);
      stream->watch();
    } else {
      if (!answered) co_return std::move(answered).error();
      co_return ResponseStream(std::move(stream));
    }
  }
  answered = co_await stream->connect(options.connect_timeout);
  if (answered) answered = co_await stream->exchange(head, request.body);
  if (!answered) co_return std::move(answered).error();
  co_return ResponseStream(std::move(stream));
}

template <class StreamImpl, class ClientImpl>
awaitable<Result<Response>> fetch_on(std::shared_ptr<ClientImpl> client, ClientRequest request, AbortSource* abort) {
  const std::size_t limit = client->options.max_body;
  Result<ResponseStream> stream = co_await open_on<StreamImpl>(client, std::move(request), abort);
  if (!stream) co_return std::move(stream).error();
  Result<std::string> body = co_await stream->read_all(limit);
  if (!body) co_return std::move(body).error();
  co_return Response{stream->status(), stream->headers(), std::move(*body)};
}

std::shared_ptr<asio::ssl::context> make_tls(const ClientOptions& options) {
  auto tls = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_client);
  boost::system::error_code ec;
  tls->set_default_verify_paths(ec);
  if (!options.ca_file.empty()) {
    tls->load_verify_file(options.ca_file, ec);
    if (ec) log::warn("ca_file_unusable", {{"file", options.ca_file}, {"message", ec.message()}});
  }
  return tls;
}

}  // namespace

HttpClient::HttpClient(asio::any_io_executor executor, Url origin, ClientOptions options)
    : impl_(std::make_shared<Impl>()) {
  impl_->executor = executor;
  impl_->origin = origin;
  impl_->options = std::move(options);
  if (origin.scheme == "https") impl_->tls = make_tls(impl_->options);
  // The pool's connections keep the TLS context alive.
  impl_->pool = std::make_shared<ConnectionPool>(executor, impl_->options.max_connections,
                                                 [executor, origin = std::move(origin), tls = impl_->tls] {
                                                   return std::make_unique<Transport>(executor, origin, tls.get());
                                                 });
}

HttpClient::~HttpClient() { impl_->pool->close(); }

awaitable<Result<Response>> HttpClient::fetch(ClientRequest request, AbortSource* abort) {
  return fetch_on<ResponseStream::Impl>(impl_, std::move(request), abort);
}

awaitable<Result<ResponseStream>> HttpClient::open(ClientRequest request, AbortSource* abort) {
  return open_on<ResponseStream::Impl>(impl_, std::move(request), abort);
}

std::size_t HttpClient::connections() const { return impl_->pool->open(); }

}  // namespace roost::net
