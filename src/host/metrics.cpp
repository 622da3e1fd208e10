#include "host/metrics.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <array>
#include <iterator>

#include "host/limits.h"
#include "host/usable_cpus.h"

namespace roost::host {
namespace {

json::value or_null(std::int64_t value) { return value < 0 ? json::value() : json::value(value); }
json::value scaled_or_null(std::int64_t value, double factor) {
  return value < 0 ? json::value() : json::value(static_cast<double>(value) * factor);
}

double own_cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto s = [](const timeval& t) { return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6; };
  return s(usage.ru_utime) + s(usage.ru_stime);
}

struct NamedCounter {
  std::string_view name;
  std::uint64_t value;
};

auto counters_of(const HostView& view) {
  const HostCounters& c = view.counters;
  return std::array{NamedCounter{"accepted", c.accepted},
                    NamedCounter{"restarts", c.restarts},
                    NamedCounter{"handoffs", c.handoffs},
                    NamedCounter{"handoff_retries", c.handoff_retries},
                    NamedCounter{"handoff_failures", c.handoff_failures},
                    NamedCounter{"over_admission", view.over_admissions()},
                    NamedCounter{"spurious_refusals", c.spurious_refusals},
                    NamedCounter{"refusals", c.refusals},
                    NamedCounter{"head_truncations", c.head_truncations},
                    NamedCounter{"returns", c.returns},
                    NamedCounter{"affinity_hits", c.affinity_hits},
                    NamedCounter{"affinity_misses", c.affinity_misses}};
}

json::object worker_json(const WorkerView& w, const HostOptions& options) {
  const handoff::Load load = w.row.load();
  const bool sticky = options.policy == Policy::sticky_by_session;
  return {{"id", w.id},
          {"pid", w.pid},
          {"state", json::string_view(to_string(w.state))},
          {"inFlight", load.in_flight},
          {"reserved", load.reserved},
          {"open", load.open},
          {"healthy", w.healthy()},
          {"generation", w.generation},
          {"loop_lag_p99_ms", scaled_or_null(w.stats.loop_lag_p99_us, 1e-3)},
          {"rss_bytes", or_null(w.stats.rss_bytes)},
          {"cpu_seconds", scaled_or_null(w.stats.cpu_us, 1e-6)},
          {"resident_sessions", or_null(w.stats.resident_sessions)},
          {"waiting_turns", or_null(w.stats.waiting_turns)},
          {"affinity_hits", sticky ? json::value(w.affinity_hits) : json::value()},
          {"affinity_misses", sticky ? json::value(w.affinity_misses) : json::value()}};
}

}  // namespace

json::object metrics_json(const HostView& view, const HostOptions& options) {
  json::array workers;
  for (const WorkerView& w : view.workers()) workers.push_back(worker_json(w, options));
  json::object counters;
  for (const NamedCounter& c : counters_of(view)) counters[json::string_view(c.name)] = c.value;
  json::object env;
  for (const auto& [name, value] : options.public_environment) env[name] = value;
  const auto lag = view.loop_lag_p99_ms();
  return {{"workers", std::move(workers)},
          {"supervisor",
           {{"cpu_seconds", own_cpu_seconds()}, {"loop_lag_p99_ms", lag ? json::value(*lag) : json::value()}}},
          {"counters", std::move(counters)},
          {"turns_per_worker", options.turns_per_worker},
          {"draining", view.draining()},
          // Measured by the workers' side of the sandboxes, which does not report them yet.
          {"lease_saturation", nullptr},
          {"file_op_p95_ms", nullptr},
          {"sandbox_pool_size", nullptr},
          {"cores", usable_cpus()},
          {"env", std::move(env)}};
}

std::string metrics_text(const HostView& view, const HostOptions& options) {
  std::string out;
  const auto into = std::back_inserter(out);
  for (const NamedCounter& c : counters_of(view)) {
    fmt::format_to(into, "# TYPE roost_host_{0}_total counter\nroost_host_{0}_total {1}\n", c.name, c.value);
  }
  fmt::format_to(into, "# TYPE roost_host_turns_per_worker gauge\nroost_host_turns_per_worker {}\n",
                 options.turns_per_worker);
  fmt::format_to(into, "# TYPE roost_host_cpu_seconds_total counter\nroost_host_cpu_seconds_total {}\n",
                 own_cpu_seconds());
  if (const auto lag = view.loop_lag_p99_ms()) {
    fmt::format_to(into, "# TYPE roost_host_loop_lag_p99_ms gauge\nroost_host_loop_lag_p99_ms {}\n", *lag);
  }
  const auto workers = view.workers();
  const auto per_worker = [&](std::string_view name, std::string_view type, auto&& value) {
    fmt::format_to(into, "# TYPE roost_worker_{} {}\n", name, type);
    for (const WorkerView& w : workers) {
      const std::optional<double> v = value(w);
      if (v) fmt::format_to(into, "roost_worker_{}{{worker=\"{}\",pid=\"{}\"}} {}\n", name, w.id, w.pid, *v);
    }
  };
  using Value = std::optional<double>;
  const auto scaled = [](std::int64_t value, double factor) {
    return value < 0 ? Value() : Value(static_cast<double>(value) * factor);
  };
  per_worker("in_flight", "gauge", [](const WorkerView& w) { return Value(w.row.load().in_flight); });
  per_worker("reserved", "gauge", [](const WorkerView& w) { return Value(w.row.load().reserved); });
  per_worker("open_connections", "gauge", [](const WorkerView& w) { return Value(w.row.load().open); });
  per_worker("healthy", "gauge", [](const WorkerView& w) { return Value(w.healthy() ? 1 : 0); });
  per_worker("loop_lag_p99_ms", "gauge", [&](const WorkerView& w) { return scaled(w.stats.loop_lag_p99_us, 1e-3); });
  per_worker("rss_bytes", "gauge", [&](const WorkerView& w) { return scaled(w.stats.rss_bytes, 1); });
  per_worker("cpu_seconds_total", "counter", [&](const WorkerView& w) { return scaled(w.stats.cpu_us, 1e-6); });
  per_worker("resident_sessions", "gauge", [&](const WorkerView& w) { return scaled(w.stats.resident_sessions, 1); });
  return out;
}

json::object refusals_json(const HostView& view) {
  json::array records;
  for (const Refusal& refusal : view.refusals.list()) {
    json::array workers;
    for (const RefusedWorker& w : refusal.workers) {
      json::value next;
      if (w.next_known) next = {{"reserved", w.next_reserved}, {"inFlight", w.next_in_flight}};
      workers.push_back(
          {{"id", w.worker}, {"reserved", w.reserved}, {"inFlight", w.in_flight}, {"next", std::move(next)}});
    }
    records.push_back({{"time", refusal.unix_seconds},
                       {"turns_per_worker", refusal.turns_per_worker},
                       {"workers", std::move(workers)}});
  }
  return {{"refusals", std::move(records)}};
}

json::object config_json(const HostOptions& options) {
  json::object settings;
  for (const auto& [name, value] : options.settings) settings[name] = value;
  json::object bounds;
  for (const limits::Limit& limit : limits::kAll) bounds[json::string_view(limit.name)] = limit.value;
  for (const limits::Limit& limit : kHostLimits) bounds[json::string_view(limit.name)] = limit.value;
  return {{"settings", std::move(settings)}, {"limits", std::move(bounds)}};
}

}  // namespace roost::host
