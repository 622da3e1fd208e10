// Who may attach to the relay, and who may call Exec. Pure; immutable after load, so it may be read from any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "core/result.h"

namespace roost::sandbox {

// Takes the same time wherever two texts of one length differ. An empty `expected` never matches.
bool same_secret(std::string_view expected, std::string_view given);

struct RelayAuth {
  std::string shared_token;                               // SH_RELAY_TOKEN; empty = none
  std::map<std::string, std::string, std::less<>> by_id;  // tokens file and SH_RELAY_TOKEN_<id>
  std::string exec_token;                                 // SH_RELAY_EXEC_TOKEN; empty = every Exec is refused

  // `tokens_json` is the tokens file's text (empty = no file), `environment` NAME=value strings ended by a null
  // pointer. Error bad_config: a malformed file, an empty token, or an exec token that equals an attach token.
  static Result<RelayAuth> make(std::string shared_token, std::string exec_token, std::string_view tokens_json,
                                const char* const* environment);

  bool has_attach_token() const { return !shared_token.empty() || !by_id.empty(); }
  // Before the Hello: is it anyone's token?
  bool known_attach_token(std::string_view token) const;
  // At the Hello: the id's own token when it has one, else the shared one.
  bool may_attach(std::string_view id, std::string_view token) const;
  bool may_exec(std::string_view token) const { return same_secret(exec_token, token); }
};

}  // namespace roost::sandbox
