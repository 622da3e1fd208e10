// A private redis-server on a unix socket, for one test.
#pragma once

#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

extern char** environ;

namespace roost::sandbox::test {

class RedisServer {
 public:
  RedisServer() {
    std::string name = "/tmp/roost-redis-test-XXXXXX";
    folder_ = mkdtemp(name.data());
    start();
  }
  ~RedisServer() {
    kill_now();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  RedisServer(const RedisServer&) = delete;

  // With an empty data set.
  void start() {
    const std::string socket = folder_ + "/redis.sock";
    std::string arguments[] = {"redis-server", "--port", "0",         "--unixsocket", socket,  "--save", "",
                               "--appendonly", "no",     "--logfile", "/dev/null",    "--dir", folder_};
    char* argv[std::size(arguments) + 1] = {};
    for (std::size_t i = 0; i < std::size(arguments); ++i) argv[i] = arguments[i].data();
    posix_spawnp(&pid_, "redis-server", nullptr, nullptr, argv, environ);
  }
  void kill_now() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  std::string url() const { return "unix://" + folder_ + "/redis.sock"; }

 private:
  std::string folder_;
  pid_t pid_ = -1;
};

}  // namespace roost::sandbox::test
