#include "cli/demo_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "cli/demo_view.h"
#include "cli/exit_code.h"

namespace roost::cli {

asio::awaitable<bool> show_demo(asio::any_io_executor executor, DemoSpec spec, bool as_json) {
  fmt::print("One task, {} agents, one shared pool. Each turn goes client -> host -> worker -> engine.\n", spec.agents);
  DemoView view(::isatty(STDOUT_FILENO) == 1);
  auto report = co_await run_demo_job(executor, std::move(spec), [&view](const DemoReport& now) {
    if (!now.agents.empty()) view.update(now);
  });
  view.finish();
  if (!report) {
    fmt::print(stderr, "roost demo: {}\n", report.error().message);
    co_return false;
  }
  fmt::print("{}", render_demo_table(*report));
  if (as_json) fmt::print("{}\n", json::serialize(report->to_json()));
  if (!report->ok()) fmt::print("the job did not end well: see the rows above\n");
  std::fflush(stdout);
  co_return report->ok();
}

int run_demo(const Config& config) {
  DemoSpec spec;
  spec.engine_url = config.text("demo.engine_url");
  spec.host_url = config.text("demo.host_url");
  spec.engine_api_key = config.text("engine.api_key");
  spec.agents = static_cast<int>(config.integer("demo.agents"));

  asio::io_context context(1);
  asio::signal_set signals(context, SIGINT, SIGTERM);
  int code = kExitFailure;
  signals.async_wait([&](boost::system::error_code ec, int) {
    if (ec) return;
    fmt::print(stderr, "stopped\n");
    context.stop();
  });
  asio::co_spawn(context, show_demo(context.get_executor(), std::move(spec), config.flag("demo.json")),
                 [&](const std::exception_ptr& failure, bool ok) {
                   if (failure) std::rethrow_exception(failure);
                   code = ok ? kExitOk : kExitFailure;
                   signals.cancel();
                 });
  context.run();
  return code;
}

}  // namespace roost::cli
