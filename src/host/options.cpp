#include "host/options.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "host/usable_cpus.h"

namespace roost::host {
namespace {

// The variables that metrics name.
constexpr std::array<std::string_view, 8> kShownVariables{
    "SH_TURNS_PER_WORKER", "SH_WORKERS", "SH_ROUTING_POLICY", "SH_ROUTING_SCOPE",
    "SH_MODEL_URL",        "SH_MODEL",   "SH_KEEPALIVE_S",    "KAGENTI_SANDBOX_CAP"};

std::chrono::milliseconds from_seconds(double value) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(value * 1e3));
}

bool is_ip_literal(const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return ::inet_pton(AF_INET, text.c_str(), address.data()) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), address.data()) == 1;
}

// Resolved once at start: after an upgrade the same path is the new binary, which is what a reload wants.
Result<std::string> own_executable() {
  std::array<char, PATH_MAX> path{};
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  if (size <= 0) return io_error("/proc/self/exe", errno);
  return std::string(path.data(), static_cast<std::size_t>(size));
}

}  // namespace

Result<HostOptions> host_options(const Config& config) {
  if (!config.is_set("host.turns_per_worker")) {
    return Error{
        ErrorKind::bad_config,
        "SH_TURNS_PER_WORKER (--turns-per-worker) is not set: the turns that one worker may have in flight (1 to "
        "65535). Its right value is measured, so there is no default; `roost up` writes one into its roost.toml",
        {},
        {}};
  }
  HostOptions o;
  o.address = config.text("host.address");
  o.port = static_cast<std::uint16_t>(config.integer("host.port"));
  o.admin_address = config.text("host.admin_host");
  o.admin_port = static_cast<std::uint16_t>(config.integer("host.admin_port"));
  if (o.admin_port != 0 && o.admin_port == o.port) {
    return Error{
        ErrorKind::bad_config,
        fmt::format("SH_ADMIN_PORT and PORT are both {}; give the admin port another (0 = any free one)", o.port),
        {},
        {}};
  }
  if (!is_ip_literal(o.admin_address)) {
    return Error{ErrorKind::bad_config,
                 fmt::format("SH_ADMIN_HOST={} is not an IP address (for example 127.0.0.1 or ::1)", o.admin_address),
                 {},
                 {}};
  }
  o.workers =
      config.is_set("host.workers") ? static_cast<std::uint32_t>(config.integer("host.workers")) : usable_cpus();
  o.turns_per_worker = static_cast<std::uint32_t>(config.integer("host.turns_per_worker"));
  o.policy =
      config.text("host.routing_policy") == "stickyBySession" ? Policy::sticky_by_session : Policy::least_in_flight;
  o.scope = config.text("host.routing_scope") == "request" ? Scope::request : Scope::connection;
  o.restart_backoff = std::chrono::milliseconds(config.integer("host.restart_backoff_ms"));
  o.keepalive = from_seconds(config.number("host.keepalive_s"));
  o.drain = from_seconds(config.number("host.drain_s"));
  o.max_connections = static_cast<std::uint32_t>(config.integer("host.max_connections"));
  ROOST_TRY(executable, own_executable());
  o.worker_command = {executable, "worker"};
  o.worker_environment = config.as_environment(kWorker);
  for (const Setting& setting : settings()) {
    if ((setting.commands & kHost) == 0U) continue;
    o.settings.emplace_back(setting.name, config.printable(setting));
    const bool shown = std::ranges::find(kShownVariables, setting.env) != kShownVariables.end();
    if (shown && !setting.secret) o.public_environment.emplace_back(setting.env, config.printable(setting));
  }
  return o;
}

}  // namespace roost::host
