// What runs inside the zygote process, and the form of a request to it.
#pragma once

#include <string>
#include <string_view>

#include "sandbox/zygote.h"

namespace roost::sandbox {

inline constexpr std::size_t kSpawnMessageBytes = 96 * 1024;

// A request as bytes (without the descriptors), and back; unpack() is false for bytes of another form.
std::string pack(const SpawnRequest& request);
bool unpack(std::string_view bytes, SpawnRequest& request);

// The zygote: serves requests on `socket` until it is closed, then kills every command and ends.
[[noreturn]] void zygote_main(int socket, bool contained, const std::string& workspace_root);

// In a forked child: becomes the command.
[[noreturn]] void exec_command(const SpawnRequest& request);

// As root: a mount of `workspace_root` at a path that every uid can reach, in a new mount namespace. Where that cannot
// be done (not root, no CAP_SYS_ADMIN): the root itself.
std::string make_workspace_view(const std::string& workspace_root);

}  // namespace roost::sandbox
