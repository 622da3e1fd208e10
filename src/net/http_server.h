// HTTP/1.1 server side on Asio coroutines. Two layers:
//   serve_connection()  one accepted socket: parse, route, answer, keep alive. The worker uses it on sockets that were
//   handed
//                       to it; nothing in it listens.
//   HttpServer          a listener whose connections are served that way (engine, admin port, worker --listen).
//
// A handler is a coroutine that gets an Exchange and answers it exactly once: send() a whole Response, or start() a
// chunked stream, write() to it and finish(). A handler that returns without an answer produces a 500; one that returns
// in the middle of a stream closes the connection (the client sees the truncation).
//
// While a handler runs the connection watches the client: when it leaves, Exchange::aborted() is requested with reason
// "client_gone" and every later write fails with ErrorKind::cancelled.
//
// Threads: a connection lives on one strand; its handler, its AbortSource and its Exchange are touched only there.
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/abort.h"
#include "core/limits.h"
#include "core/result.h"
#include "net/http.h"

namespace roost::net {

namespace asio = boost::asio;
using asio::awaitable;
using tcp = asio::ip::tcp;

// One request and its answer. Lives as long as its handler runs.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const Request& request() const = 0;
  virtual AbortSource& aborted() = 0;
  virtual asio::any_io_executor executor() = 0;

  // The whole answer. Content-Length, Date-less; Connection: close is added where the connection will not be kept.
  virtual awaitable<Result<void>> send(Response response) = 0;

  // The head of a chunked answer (SSE and the like). Nothing is sent before the first write() or flush by finish(), so
  // that headers leave together with the first event.
  virtual awaitable<Result<void>> start(int status, Headers headers) = 0;
  // One piece of the stream, on the wire when this returns. Waits while the client reads slowly, at most write_timeout.
  virtual awaitable<Result<void>> write(std::string_view data) = 0;
  virtual awaitable<Result<void>> finish() = 0;

  // Has any byte of an answer been promised (send or start called)?
  virtual bool started() const = 0;
};

using Handler = std::function<awaitable<void>(Exchange&)>;

// Routes by exact path, with {name} matching one segment. 404 for an unknown path, 405 with Allow for a known path and
// another method (both through the server's error renderer). HEAD is answered by the GET route unless it has one of its
// own. A route without {names} wins over one with; then the one added first.
class Router {
 public:
  void add(std::string_view method, std::string_view pattern, Handler handler);

  struct Match {
    const Handler* handler = nullptr;  // null: see error
    std::vector<std::pair<std::string, std::string>> params;
    Error error;        // not_found or method_not_allowed
    std::string allow;  // value of the Allow header for method_not_allowed
  };
  Match match(std::string_view method, std::string_view path) const;

 private:
  struct Route {
    std::string method;
    std::vector<std::string> segments;
    Handler handler;
  };
  std::vector<Route> routes_;
};

// Shared by all connections of a server; lives longer than they do. draining: every answer carries Connection: close,
// idle connections are closed at once.
//
// Threads: draining() and subscribe() from any; begin() once, from any. source() is for listeners on the executor that
// calls begin(): its callbacks run inside begin().
class Drain {
  struct Listener {
    asio::any_io_executor executor;
    std::function<void()> callback;
  };
  struct State {
    std::atomic<bool> draining{false};
    std::mutex mutex;
    std::list<Listener> listeners;  // guarded by mutex
  };

 public:
  // Unsubscribes in its destructor. May outlive the Drain, as coroutines do that die with their io_context.
  class Subscription {
   public:
    Subscription() = default;
    Subscription(Subscription&& other) noexcept = default;
    Subscription& operator=(Subscription&& other) noexcept;
    ~Subscription() { reset(); }
    void reset();

   private:
    friend class Drain;
    Subscription(std::shared_ptr<State> state, std::list<Listener>::iterator at);
    std::shared_ptr<State> state_;
    std::list<Listener>::iterator at_;
  };

  Drain() = default;
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;

  bool draining() const { return state_->draining.load(); }
  void begin();
  AbortSource& source() { return source_; }

  // Posts `callback` to `executor` when begin() is called; at once if it was already. It may still run shortly after
  // the Subscription is gone, so it must guard what it touches (a weak pointer).
  [[nodiscard]] Subscription subscribe(asio::any_io_executor executor, std::function<void()> callback);

 private:
  std::shared_ptr<State> state_ = std::make_shared<State>();
  AbortSource source_;
};

// What to do with a kept-alive connection on which the next request has begun to arrive, not yet read.
enum class NextRequest { serve, give_back };

// {"error":{"code","message","type","error_kind", details...}} with the kind's status and Retry-After.
Response default_error_response(const Error& error);

struct ConnectionOptions {
  std::size_t max_head = limits::kHttpHeadBytes;
  std::size_t max_body = 64 * 1024 * 1024;
  std::chrono::milliseconds idle_timeout{75'000};   // between requests
  std::chrono::milliseconds read_timeout{30'000};   // from a request's first byte until it is complete
  std::chrono::milliseconds write_timeout{30'000};  // one write to a client that does not read

  // An Error of the server itself (bad HTTP, too large, no route) as an answer; the shape of error bodies differs by
  // server. Empty: default_error_response.
  std::function<Response(const Error&)> render_error;

  // Called when a request's head is complete, before its body is read (request.body is empty). A Response refuses the
  // request: it is sent, and the connection is closed if body bytes are still to come.
  std::function<std::optional<Response>(const Request& head)> on_head;
  // Called once for each request whose on_head was called and did not refuse, when its answer is out or has failed.
  std::function<void()> on_end;
  // Called on a kept-alive connection when bytes of a next request are readable but none has been consumed (pipelined
  // bytes that are already in the parser's buffer do not ask). give_back ends serve_connection with the socket, intact.
  std::function<awaitable<NextRequest>(tcp::socket&)> before_next;

  // Called before the handler, with the request complete. May wait (end early when exchange.aborted() is requested) and
  // may answer. The handler is not run when it has answered, or when the client has left meanwhile.
  std::function<awaitable<void>(Exchange&)> before_handler;
  // Called after an answer when the connection will be kept and the parser's buffer holds no unread bytes. give_back
  // ends serve_connection with the socket at once; serve waits for the next request here.
  std::function<NextRequest()> when_idle;

  Drain* drain = nullptr;  // may be null
};

// Serves a socket until it closes. The socket comes back only when before_next or when_idle said give_back. An
// exception of a hook is logged and closes the connection. `router`, `options` and options.drain live longer than this
// runs.
awaitable<std::optional<tcp::socket>> serve_connection(tcp::socket socket, const Router& router,
                                                       const ConnectionOptions& options);

// Listens and serves. Each connection gets its own strand of `context`, which may be run by several threads.
class HttpServer {
 public:
  struct Options {
    std::string host = "127.0.0.1";  // an IP literal or name
    std::uint16_t port = 0;          // 0 = any free one
    std::size_t max_connections = 4096;
    ConnectionOptions connection;
  };

  HttpServer(asio::io_context& context, const Router& router, Options options);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;

  // Binds and starts to accept. A port in use is Error bad_config naming host, port and the way out.
  Result<void> start();
  std::uint16_t port() const;  // the bound port
  // Stops accepting and closes idle connections; waits until the running exchanges have ended, at most `grace`, then
  // aborts them (reason "shutting_down") and waits for their handlers.
  awaitable<void> stop(std::chrono::milliseconds grace);
  std::size_t connections() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace roost::net
