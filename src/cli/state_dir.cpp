#include "cli/state_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/un.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace roost::cli {

namespace fs = std::filesystem;

Result<StateDir> StateDir::open(const std::string& path) {
  std::error_code ec;
  const std::string absolute = fs::absolute(path, ec).lexically_normal().string();
  for (const char* sub : {"/redis", "/workspaces", "/logs"}) {
    fs::create_directories(absolute + sub, ec);
    if (ec)
      return {ErrorKind::bad_config, "the state folder " + absolute + " cannot be made: " + ec.message() +
                                         " (choose another with --state-dir)"};
  }
  fs::permissions(absolute, fs::perms::owner_all, ec);
  UniqueFd lock(::open((absolute + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock)
    return {ErrorKind::bad_config, io_error("the state folder " + absolute + " cannot be written", errno).message};
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return {ErrorKind::bad_config,
            "another `roost up` uses the state folder " + absolute + ": stop it or choose another with --state-dir"};
  }
  return StateDir(absolute, std::move(lock));
}

StateDir::~StateDir() {
  std::error_code ec;
  if (addresses_written_ && lock_) fs::remove(path_ + "/addresses.json", ec);
  if (!socket_dir_.empty()) fs::remove_all(socket_dir_, ec);
}

Result<std::string> StateDir::redis_socket() {
  std::string socket = redis_dir() + "/redis.sock";
  if (socket.size() < sizeof(sockaddr_un::sun_path)) return socket;
  std::string dir = "/tmp/roost-XXXXXX";
  if (::mkdtemp(dir.data()) == nullptr) return io_error("cannot make a folder for Redis's socket in /tmp", errno);
  socket_dir_ = dir;
  return dir + "/redis.sock";
}

Result<void> StateDir::write_addresses(const json::object& addresses) {
  const std::string file = path_ + "/addresses.json";
  const std::string fresh = file + ".new";
  {
    std::ofstream out(fresh, std::ios::trunc);
    out << json::serialize(addresses) << '\n';
    if (!out.flush()) return io_error("cannot write " + fresh, errno);
  }
  std::error_code ec;
  fs::rename(fresh, file, ec);
  if (ec) return {ErrorKind::io, "cannot write " + file + ": " + ec.message()};
  addresses_written_ = true;
  return {};
}

}  // namespace roost::cli
