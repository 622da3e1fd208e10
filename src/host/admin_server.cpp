#include "host/admin_server.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <thread>

#include "host/limits.h"
#include "host/metrics.h"
#include "net/http_server.h"

namespace roost::host {

namespace asio = boost::asio;
using net::awaitable;

namespace {

constexpr std::size_t kAdminBody = 64 * 1024;

awaitable<void> answer(net::Exchange& exchange, net::Response response) {
  (void)co_await exchange.send(std::move(response));
}

constexpr const char* kIndex =
    "Roost host, admin port\n"
    "  /metrics              Prometheus text; ?format=json for JSON\n"
    "  /refusals             why each 429 was given\n"
    "  /healthz  /readyz     this process; at least one ready worker\n"
    "  /config               settings and limits\n";

}  // namespace

struct AdminServer::Impl {
  Impl(const HostView& host_view, const HostOptions& host_options) : view(host_view), options(host_options) {
    router.add("GET", "/", [](net::Exchange& e) { return answer(e, net::Response::text(200, kIndex)); });
    router.add("GET", "/healthz", [](net::Exchange& e) { return answer(e, net::Response::text(200, "ok")); });
    router.add("GET", "/readyz", [this](net::Exchange& e) { return answer(e, readiness()); });
    router.add("GET", "/metrics", [this](net::Exchange& e) { return answer(e, metrics(e.request())); });
    router.add("GET", "/refusals",
               [this](net::Exchange& e) { return answer(e, net::Response::json(200, refusals_json(view))); });
    router.add("GET", "/config",
               [this](net::Exchange& e) { return answer(e, net::Response::json(200, config_json(options))); });
  }

  net::Response readiness() const {
    const std::size_t ready = view.ready_workers();
    if (ready > 0 && !view.draining()) return net::Response::text(200, "ready");
    return net::Response::text(503, view.draining() ? "draining" : "no worker is ready");
  }

  net::Response metrics(const net::Request& request) const {
    const std::string* format = request.query_value("format");
    if (format != nullptr && *format == "json") return net::Response::json(200, metrics_json(view, options));
    return net::Response::text(200, metrics_text(view, options), "text/plain; version=0.0.4; charset=utf-8");
  }

  const HostView& view;
  const HostOptions& options;
  asio::io_context context{1};
  net::Router router;
  std::unique_ptr<net::HttpServer> server;
  std::thread thread;
};

AdminServer::AdminServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<AdminServer>> AdminServer::start(const HostView& view, const HostOptions& options) {
  auto impl = std::make_unique<Impl>(view, options);
  net::HttpServer::Options server;
  server.host = options.admin_address;
  server.port = options.admin_port;
  server.max_connections = kAdminConnections;
  server.connection.max_body = kAdminBody;
  impl->server = std::make_unique<net::HttpServer>(impl->context, impl->router, std::move(server));
  ROOST_TRY_VOID(impl->server->start());
  impl->thread = std::thread([&context = impl->context] {
    const auto guard = asio::make_work_guard(context);
    context.run();
  });
  return std::unique_ptr<AdminServer>(new AdminServer(std::move(impl)));
}

AdminServer::~AdminServer() {
  // Nobody waits for the rest of a metrics document of a host that ends.
  impl_->context.stop();
  impl_->thread.join();
}

std::uint16_t AdminServer::port() const { return impl_->server->port(); }

}  // namespace roost::host
