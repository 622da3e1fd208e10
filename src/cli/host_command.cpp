#include "cli/host_command.h"

#include <signal.h>

#include "cli/exit_code.h"
#include "core/log.h"
#include "host/admin_server.h"
#include "host/supervisor.h"

namespace roost::cli {
namespace {

// Before any thread starts: the supervisor takes them from a descriptor.
void block_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
}

}  // namespace

int run_host(const Config& config) {
  auto options = host::host_options(config);
  if (!options) return report_failure("host", options.error());
  block_signals();
  auto supervisor = host::Supervisor::create(*std::move(options));
  if (!supervisor) return report_failure("host", supervisor.error());
  const host::HostOptions& in_use = (*supervisor)->options();
  auto admin = host::AdminServer::start((*supervisor)->view(), in_use);
  if (!admin) return report_failure("host", admin.error());

  return (*supervisor)->run([&] {
    log::info("host ready", {{"address", in_use.address},
                             {"port", (*supervisor)->port()},
                             {"admin_address", in_use.admin_address},
                             {"admin_port", (*admin)->port()},
                             {"port", (*supervisor)->port()},
                             {"admin_port", (*admin)->port()},
                             {"workers", in_use.workers},
                             {"turns_per_worker", in_use.turns_per_worker}});
  });
}

}  // namespace roost::cli
