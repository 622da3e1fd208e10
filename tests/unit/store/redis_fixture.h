// A private redis-server for a test: unix socket in a temporary folder, no file, killed in the destructor (and by the
// kernel when the test dies).
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "store/redis.h"

namespace roost::test {

namespace asio = boost::asio;

class RedisServer {
 public:
  explicit RedisServer(std::vector<std::string> extra = {}) : extra_(std::move(extra)) {
    std::string pattern = (std::filesystem::temp_directory_path() / "roost-redis-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    folder_ = pattern;
    start();
  }
  ~RedisServer() {
    stop();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  RedisServer(const RedisServer&) = delete;

  std::string socket_path() const { return (folder_ / "redis.sock").string(); }
  std::string url() const { return "unix://" + socket_path(); }
  pid_t pid() const { return pid_; }

  // Starts it and waits until it answers PING (at most 20 s).
  void start() {
    std::vector<std::string> words{"redis-server",
                                   "--port",
                                   "0",
                                   "--unixsocket",
                                   socket_path(),
                                   "--save",
                                   "",
                                   "--appendonly",
                                   "no",
                                   "--dir",
                                   folder_.string(),
                                   "--loglevel",
                                   "warning",
                                   "--logfile",
                                   (folder_ / "log").string()};
    words.insert(words.end(), extra_.begin(), extra_.end());
    std::vector<char*> argv;
    for (auto& w : words) argv.push_back(w.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!answers() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  // kill -9.
  void stop() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  bool answers() const {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    socket_path().copy(address.sun_path, sizeof address.sun_path - 1);
    bool ok = ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    if (ok) {
      char answer[8] = {};
      ok = ::send(fd, "PING\r\n", 6, MSG_NOSIGNAL) == 6 && ::recv(fd, answer, sizeof answer, 0) > 0;
    }
    ::close(fd);
    return ok;
  }

  std::filesystem::path folder_;
  std::vector<std::string> extra_;
  pid_t pid_ = 0;
};

// Runs one coroutine to its end on `context`; other work of the context goes on meanwhile. Fails the test after
// `limit`.
inline void run_until_done(asio::io_context& context, asio::awaitable<void> work,
                           std::chrono::seconds limit = std::chrono::seconds(60)) {
  bool done = false;
  std::exception_ptr thrown;
  asio::co_spawn(context, std::move(work), [&](std::exception_ptr e) {
    thrown = std::move(e);
    done = true;
  });
  context.restart();
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!done && std::chrono::steady_clock::now() < deadline) context.run_one_for(std::chrono::milliseconds(100));
  ASSERT_TRUE(done) << "the coroutine did not end within " << limit.count() << " s";
  if (thrown) std::rethrow_exception(thrown);
}

inline asio::awaitable<void> pause_for(std::chrono::milliseconds duration) {
  asio::steady_timer timer(co_await asio::this_coro::executor, duration);
  co_await timer.async_wait(asio::use_awaitable);
}

}  // namespace roost::test
