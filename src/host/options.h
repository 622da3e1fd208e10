// What a supervisor needs to know, from the configuration table.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/config.h"
#include "core/result.h"

namespace roost::host {

enum class Policy { least_in_flight, sticky_by_session };
enum class Scope { connection, request };

struct HostOptions {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;  // 0 = any free one
  std::string admin_address = "127.0.0.1";
  std::uint16_t admin_port = 0;

  std::uint32_t workers = 1;           // W
  std::uint32_t turns_per_worker = 1;  // S
  Policy policy = Policy::least_in_flight;
  Scope scope = Scope::connection;
  std::chrono::milliseconds restart_backoff{250};
  std::chrono::milliseconds keepalive{75'000};
  std::chrono::milliseconds drain{20'000};
  std::uint32_t max_connections = 65'536;

  // The rules of the hand-off; tests shorten them.
  std::chrono::milliseconds head_timeout{2'000};   // from a head's first byte; then it is handed off without affinity
  std::chrono::milliseconds claim_timeout{1'000};  // a worker that has not claimed by then does not get the connection
  std::chrono::milliseconds linger{5'000};         // a refused peer's time to read its answer
  std::chrono::milliseconds start_timeout{
      60'000};  // a worker that is not ready by then is killed and counted as a crash

  std::vector<std::string> worker_command;      // argv; [0] is the path of the executable
  std::vector<std::string> worker_environment;  // NAME=value, over the supervisor's own
  bool handle_signals = true;                   // SIGTERM, SIGINT, SIGHUP; they must be blocked in every thread

  bool check_every_turn = false;  // check_integrity() after every turn of the loop; for tests

  // For the admin port: setting and effective value, secrets masked.
  std::vector<std::pair<std::string, std::string>> settings;
  // For /metrics: the variables that say how an experiment was set up (an allow-list; never a secret).
  std::vector<std::pair<std::string, std::string>> public_environment;
};

// Errors: bad_config naming the setting. The worker's command is this executable with the subcommand `worker`.
Result<HostOptions> host_options(const Config& config);

}  // namespace roost::host
