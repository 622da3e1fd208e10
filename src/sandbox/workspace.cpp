#include "sandbox/workspace.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "core/ids.h"

namespace roost::sandbox {

bool is_workspace_key(std::string_view key) { return is_plain_session_id(key) && key.front() != '.'; }

Result<Workspaces> Workspaces::open(const std::string& root) {
  std::error_code error;
  std::filesystem::create_directories(root, error);
  const std::filesystem::path real = error ? std::filesystem::path() : std::filesystem::canonical(root, error);
  if (error) {
    return {ErrorKind::bad_config,
            fmt::format("sandbox.workspace: cannot use the folder '{}': {}", root, error.message())};
  }
  if (access(real.c_str(), W_OK | X_OK) != 0) {
    return {ErrorKind::bad_config,
            fmt::format("sandbox.workspace: cannot write in '{}': {}", real.string(), std::strerror(errno))};
  }
  return Workspaces(real.string());
}

void Workspaces::set_owner(uid_t owner) {
  owner_ = owner;
  // Commands pass through the root to their own folder, and do not look around.
  if (owner != 0) static_cast<void>(chmod(root_.c_str(), 0711));
}

Result<std::string> Workspaces::prepare(std::string_view key) const {
  const std::string name(key.empty() ? "default" : key);
  if (!is_workspace_key(name)) {
    return {ErrorKind::invalid_request, "workspace_key: 1 to 128 letters, digits or . _ ~ -, not starting with a dot"};
  }
  const std::string path = root_ + "/" + name;
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return io_error("cannot make workspace '" + name + "'", errno);
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return io_error(path, errno);
  if (!S_ISDIR(info.st_mode)) return {ErrorKind::internal, fmt::format("workspace '{}' is not a folder", name)};
  // A folder of an earlier start under another uid is taken over.
  const uid_t owner = owner_ != 0 ? owner_ : geteuid();
  if (info.st_uid != owner && lchown(path.c_str(), owner, owner) != 0)
    return io_error("cannot hand over workspace '" + name + "'", errno);
  return name;
}

}  // namespace roost::sandbox
