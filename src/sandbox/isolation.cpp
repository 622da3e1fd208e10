#include "sandbox/isolation.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/log.h"

namespace roost::sandbox {
namespace {

namespace fs = std::filesystem;

// Not nobody's, because other services run as nobody; from the range that Debian never assigns.
constexpr uid_t kCommandUid = 65433;
constexpr const char* kInsideUid = "1000";
constexpr const char* kInside = "/workspace";
constexpr const char* kPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
// Arguments of an exec are limited to 128 KiB each; what is longer is read from a descriptor.
constexpr std::size_t kInlineCommand = 32 * 1024;
constexpr const char* kReadScript = "roost_script=$(cat <&9); exec 9<&-; eval \"$roost_script\"";
constexpr std::string_view kHidden = ".roost";
constexpr const char* kProbeWorkspace = "roost-probe";

// Ways to isolate, from the strictest to the least strict that still isolates. As root, limits on processes bind only
// under another uid; some machines let only root make namespaces.
struct Variant {
  bool own_uid;      // commands run under a uid of their own
  bool fresh_proc;   // a /proc of their pid namespace; else none
  bool lock_userns;  // no user namespaces inside
};
constexpr Variant kVariants[] = {{true, true, true},   {true, true, false},  {false, true, true},
                                 {false, true, false}, {true, false, false}, {false, false, false}};

// Of /etc only what programs need to run: no host names, keys, user lists.
constexpr const char* kEtc[] = {
    "/etc/alternatives",    "/etc/ld.so.cache", "/etc/ld.so.conf",    "/etc/ld.so.conf.d",
    "/etc/localtime",       "/etc/timezone",    "/etc/nsswitch.conf", "/etc/mime.types",
    "/etc/protocols",       "/etc/services",    "/etc/ssl/certs",     "/etc/ssl/openssl.cnf",
    "/etc/ca-certificates", "/etc/magic",       "/etc/java",          "/etc/perl",
    "/etc/python3",         "/etc/fonts"};
constexpr const char* kEtcNet[] = {"/etc/resolv.conf", "/etc/hosts", "/etc/gai.conf"};

constexpr const char* kAdvice =
    "allow it (package bubblewrap; sysctl kernel.unprivileged_userns_clone=1 and user.max_user_namespaces > 0; in a "
    "container: "
    "--security-opt seccomp=unconfined, and systempaths=unconfined for /proc), or pass --isolation=none to run "
    "commands WITHOUT isolation";

std::string find_in_path(std::string_view program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? kPath : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = fmt::format("{}/{}", folder, program);
    if (folder.starts_with('/') && access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

Result<std::string> write_etc(const std::string& root) {
  const std::string hidden = fmt::format("{}/{}", root, kHidden);
  std::error_code error;
  fs::create_directories(hidden, error);
  std::ofstream(hidden + "/passwd")
      << "root:x:0:0:root:/:/usr/sbin/nologin\nagent:x:1000:1000:agent:/workspace:/bin/bash\n";
  std::ofstream(hidden + "/group") << "root:x:0:\nagent:x:1000:\n";
  std::ofstream(hidden + "/hosts") << "127.0.0.1 localhost sandbox\n::1 localhost\n";
  for (const char* file : {"", "/passwd", "/group", "/hosts"}) {
    const std::string path = hidden + file;
    if (chmod(path.c_str(), *file == '\0' ? 0755 : 0644) != 0) {
      return {ErrorKind::bad_config, fmt::format("sandbox.workspace: cannot write '{}'", path)};
    }
  }
  return hidden;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

Result<Isolation> Isolation::find(const Options& options, Zygote& zygote, Workspaces& workspaces) {
  Isolation isolation;
  isolation.options_ = options;
  isolation.view_ = zygote.workspace_view();
  if (options.mode == Mode::none) return isolation;

  if (isolation.options_.bwrap_path.empty()) isolation.options_.bwrap_path = find_in_path("bwrap");
  if (isolation.options_.bwrap_path.empty()) {
    return {ErrorKind::bad_config, fmt::format("sandbox.isolation: bubblewrap (bwrap) is not installed; {}", kAdvice)};
  }
  ROOST_TRY(etc, write_etc(workspaces.root()));
  isolation.etc_ = fmt::format("{}/{}", isolation.view_, fs::path(etc).filename().string());
  std::string reason;
  bool found = false;
  for (const Variant& variant : kVariants) {
    if (variant.own_uid && geteuid() != 0) continue;
    isolation.run_uid_ = variant.own_uid ? kCommandUid : 0;
    isolation.fresh_proc_ = variant.fresh_proc;
    isolation.lock_userns_ = variant.lock_userns;
    workspaces.set_owner(isolation.run_uid_);
    const ProbeResult probe = isolation.probe(zygote, workspaces);
    found = probe.exit_status == 0 && probe.out == "isolated\n";
    if (found) break;
    // The first failure is the one to tell; the others are consequences.
    if (reason.empty()) reason = first_line(probe.err);
  }
  if (!found)
    return {ErrorKind::bad_config,
            fmt::format("sandbox.isolation: bubblewrap cannot isolate here ({}); {}", reason, kAdvice)};
  if (!isolation.fresh_proc_) log::warn("isolation without /proc", {{"reason", reason}});
  return isolation;
}

ProbeResult Isolation::probe(Zygote& zygote, const Workspaces& workspaces) const {
  const auto name = workspaces.prepare(kProbeWorkspace);
  if (!name) return {-1, {}, name.error().message};
  auto made = plan("touch probe && rm probe && [ ! -e /etc/shadow ] && echo isolated", *name);
  ProbeResult result = run_probe(zygote, std::move(made.request));
  std::error_code ignored;
  fs::remove(workspaces.root() + "/" + *name, ignored);
  return result;
}

std::vector<std::string> Isolation::bwrap_arguments(const std::string& workspace_path) const {
  std::vector<std::string> a{
      options_.bwrap_path,    "--unshare-user",    "--unshare-pid", "--unshare-ipc", "--unshare-uts",
      "--unshare-cgroup-try", "--die-with-parent", "--new-session", "--cap-drop",    "ALL"};
  const auto add = [&a](std::initializer_list<std::string> more) { a.insert(a.end(), more); };
  if (!options_.net) add({"--unshare-net"});
  if (lock_userns_) add({"--disable-userns"});
  add({"--uid", kInsideUid, "--gid", kInsideUid, "--hostname", "sandbox", "--clearenv"});
  add({"--ro-bind", "/usr", "/usr"});
  for (const char* folder : {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}) {
    std::error_code error;
    if (fs::is_symlink(folder, error)) {
      add({"--symlink", fs::read_symlink(folder, error).string(), folder});
    } else {
      add({"--ro-bind-try", folder, folder});
    }
  }
  for (const char* path : kEtc) add({"--ro-bind-try", path, path});
  if (options_.net) {
    for (const char* path : kEtcNet) add({"--ro-bind-try", path, path});
  } else {
    add({"--ro-bind", etc_ + "/hosts", "/etc/hosts"});
  }
  add({"--ro-bind", etc_ + "/passwd", "/etc/passwd", "--ro-bind", etc_ + "/group", "/etc/group"});
  add({"--dev", "/dev"});
  if (fresh_proc_) {
    add({"--proc", "/proc"});
  } else {
    add({"--dir", "/proc"});
  }
  add({"--tmpfs", "/tmp", "--tmpfs", "/run", "--dir", "/var", "--symlink", "../tmp", "/var/tmp"});
  add({"--bind", workspace_path, kInside, "--chdir", kInside});
  // What is left of / is bubblewrap's own tmpfs, which nobody needs to write.
  add({"--remount-ro", "/"});
  return a;
}

Isolation::Plan Isolation::plan(const std::string& command, const std::string& workspace_name) const {
  const std::string folder = view_ + "/" + workspace_name;
  const bool bwrap = options_.mode == Mode::bwrap;
  const std::vector<std::pair<std::string, std::string>> env{{"PATH", kPath},        {"HOME", bwrap ? kInside : folder},
                                                             {"USER", "agent"},      {"LOGNAME", "agent"},
                                                             {"SHELL", "/bin/bash"}, {"TMPDIR", "/tmp"},
                                                             {"TERM", "dumb"},       {"LANG", "C.UTF-8"}};
  Plan plan;
  SpawnRequest& request = plan.request;
  request.cwd = bwrap ? std::string(1, '/') : folder;
  if (bwrap) {
    request.argv = bwrap_arguments(folder);
    for (const auto& [name, value] : env) request.argv.insert(request.argv.end(), {"--setenv", name, value});
    request.argv.emplace_back("--");
    request.run_uid = run_uid_;
  } else {
    for (const auto& [name, value] : env) request.env.push_back(name + "=" + value);
  }
  const bool is_long = command.size() > kInlineCommand;
  if (is_long) plan.script = command;
  request.argv.insert(request.argv.end(), {"/bin/bash", "-c", is_long ? kReadScript : command});
  return plan;
}

std::string Isolation::name() const {
  if (options_.mode == Mode::none) return "none";
  return fresh_proc_ ? "bwrap" : "bwrap-noproc";
}

}  // namespace roost::sandbox
