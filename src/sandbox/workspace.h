// Workspaces: one folder per workspace key under one root. Folders are made when first used and kept.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "core/result.h"

namespace roost::sandbox {

// 1 to 128 of letters, digits, `. _ ~ -`, not starting with a dot; so that it names a folder and nothing else.
bool is_workspace_key(std::string_view key);

class Workspaces {
 public:
  // Makes the root where it is missing. Error bad_config when it cannot be used.
  static Result<Workspaces> open(const std::string& root);
  // Whose the folders shall be; 0 = the sandbox's own uid.
  void set_owner(uid_t owner);

  // The key's folder name, made when missing. An empty key is "default". Error invalid_request: a bad key; internal:
  // not makeable.
  Result<std::string> prepare(std::string_view key) const;
  const std::string& root() const { return root_; }

 private:
  explicit Workspaces(std::string root) : root_(std::move(root)) {}
  std::string root_;  // absolute, without symlinks
  uid_t owner_ = 0;
};

}  // namespace roost::sandbox
