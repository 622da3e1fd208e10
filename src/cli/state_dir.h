// StateDir: the folder in which `roost up` keeps what outlives it (Redis's append-only file, workspaces) and what tells
// others about it (logs, addresses.json). One `roost up` at a time holds it.
#pragma once

#include <string>

#include "core/json.h"
#include "core/result.h"
#include "core/unique_fd.h"

namespace roost::cli {

class StateDir {
 public:
  // Makes the folder and takes its lock; bad_config when another `roost up` holds it or it cannot be written.
  static Result<StateDir> open(const std::string& path);
  ~StateDir();
  StateDir(StateDir&&) = default;

  const std::string& path() const { return path_; }
  std::string redis_dir() const { return path_ + "/redis"; }
  std::string workspaces_dir() const { return path_ + "/workspaces"; }
  std::string log_file(const std::string& part) const { return path_ + "/logs/" + part + ".log"; }
  // A socket's path has at most 107 bytes; in a deep folder the socket lies in a private folder under /tmp instead.
  Result<std::string> redis_socket();
  // Written when everything is ready, removed at the end: where the parts listen, for other commands and tests.
  Result<void> write_addresses(const json::object& addresses);

 private:
  StateDir(std::string path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  UniqueFd lock_;
  std::string socket_dir_;  // only when it is not path_
  bool addresses_written_ = false;
};

}  // namespace roost::cli
