// The parts of the zygote before and in the command: the request's form, the workspace mount, limits, exec.
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "sandbox/zygote_process.h"

namespace roost::sandbox {
namespace {

constexpr rlim_t kMaxProcesses = 512;
constexpr rlim_t kMaxFiles = 1024;
constexpr int kExecFailed = 127;

void add(std::string& out, std::string_view text) {
  const auto size = static_cast<std::uint32_t>(text.size());
  out.append(reinterpret_cast<const char*>(&size), sizeof size);
  out.append(text);
}
bool take(std::string_view& in, std::string& text) {
  std::uint32_t size = 0;
  if (in.size() < sizeof size) return false;
  std::memcpy(&size, in.data(), sizeof size);
  in.remove_prefix(sizeof size);
  if (in.size() < size) return false;
  text.assign(in.substr(0, size));
  in.remove_prefix(size);
  return true;
}
void add_list(std::string& out, const std::vector<std::string>& list) {
  add(out, std::to_string(list.size()));
  for (const std::string& text : list) add(out, text);
}
bool take_list(std::string_view& in, std::vector<std::string>& list) {
  std::string count;
  if (!take(in, count)) return false;
  for (int n = std::atoi(count.c_str()); n > 0; --n) {
    if (!take(in, list.emplace_back())) return false;
  }
  return true;
}

void limit(__rlimit_resource resource, rlim_t value) {
  rlimit now{};
  if (getrlimit(resource, &now) != 0) return;
  if (now.rlim_max != RLIM_INFINITY && now.rlim_max < value) value = now.rlim_max;
  now = {value, value};
  setrlimit(resource, &now);
}

[[noreturn]] void give_up(const char* what) {
  const char* reason = std::strerror(errno);
  for (const char* part : {"roost sandbox: ", what, ": ", reason, "\n"}) {
    if (write(2, part, std::strlen(part)) < 0) break;
  }
  _exit(kExecFailed);
}

// 0, 1, 2 and 9 become the command's; everything else closes at exec.
void place_descriptors(const SpawnRequest& request) {
  const int given[] = {request.stdin_fd, request.stdout_fd, request.stderr_fd, request.script_fd};
  int above[4];
  for (int i = 0; i < 4; ++i) above[i] = given[i] < 0 ? -1 : fcntl(given[i], F_DUPFD_CLOEXEC, kScriptFd + 1);
  for (int i = 0; i < 3; ++i) dup2(above[i], i);
  close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
  if (above[3] >= 0) dup2(above[3], kScriptFd);
}

std::vector<char*> pointers(const std::vector<std::string>& list) {
  std::vector<char*> all;
  for (const std::string& text : list) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

}  // namespace

std::string pack(const SpawnRequest& request) {
  std::string out;
  add_list(out, request.argv);
  add_list(out, request.env);
  add(out, request.cwd);
  add(out, request.marker);
  add(out, std::to_string(request.run_uid));
  return out;
}

bool unpack(std::string_view bytes, SpawnRequest& request) {
  std::string uid;
  if (!take_list(bytes, request.argv) || !take_list(bytes, request.env) || !take(bytes, request.cwd) ||
      !take(bytes, request.marker) || !take(bytes, uid)) {
    return false;
  }
  request.run_uid = static_cast<uid_t>(std::atol(uid.c_str()));
  return bytes.empty() && !request.argv.empty();
}

void exec_command(const SpawnRequest& request) {
  setpgid(0, 0);
  place_descriptors(request);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_NOFILE, kMaxFiles);
  limit(RLIMIT_NPROC, kMaxProcesses);
  umask(022);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (request.run_uid != 0 &&
      (setgroups(0, nullptr) != 0 || setresgid(request.run_uid, request.run_uid, request.run_uid) != 0 ||
       setresuid(request.run_uid, request.run_uid, request.run_uid) != 0)) {
    give_up("cannot drop privileges");
  }
  if (!request.cwd.empty() && chdir(request.cwd.c_str()) != 0) give_up("cannot enter the workspace");
  std::vector<std::string> env = request.env;
  env.push_back("ROOST_EXEC=" + request.marker);
  execve(request.argv[0].c_str(), pointers(request.argv).data(), pointers(env).data());
  give_up(request.argv[0].c_str());
}

std::string make_workspace_view(const std::string& workspace_root) {
  if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0) return workspace_root;
  if (mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) return workspace_root;
  for (const std::string base : {"/mnt", "/media", "/srv"}) {
    struct stat info {};
    const bool hides_root = workspace_root == base || workspace_root.starts_with(base + "/");
    if (hides_root || stat(base.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) continue;
    if (mount("tmpfs", base.c_str(), "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=64k") != 0) continue;
    const std::string view = base + "/workspaces";
    if (mkdir(view.c_str(), 0755) == 0 && mount(workspace_root.c_str(), view.c_str(), nullptr, MS_BIND, nullptr) == 0)
      return view;
    umount2(base.c_str(), MNT_DETACH);
  }
  return workspace_root;
}

}  // namespace roost::sandbox
