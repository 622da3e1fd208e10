#include "sandbox/relay_auth.h"

#include <fmt/format.h>

#include "core/json.h"

namespace roost::sandbox {
namespace {

constexpr std::string_view kPerIdPrefix = "SH_RELAY_TOKEN_";

Result<void> read_tokens_file(std::string_view text, RelayAuth& auth) {
  auto object = parse_json_object(text);
  if (!object) {
    return {ErrorKind::bad_config,
            fmt::format("relay.tokens_file: not a JSON object {{\"<sandbox id>\": \"<token>\"}}: {}",
                        object.error().message)};
  }
  for (const auto& [id, token] : *object) {
    if (!token.is_string() || token.get_string().empty()) {
      return {ErrorKind::bad_config,
              fmt::format("relay.tokens_file: the token of '{}' is not a non-empty string", std::string(id))};
    }
    auth.by_id.insert_or_assign(std::string(id), std::string(token.get_string()));
  }
  return {};
}

void read_environment(const char* const* environment, RelayAuth& auth) {
  for (; environment != nullptr && *environment != nullptr; ++environment) {
    const std::string_view entry(*environment);
    const auto equals = entry.find('=');
    if (!entry.starts_with(kPerIdPrefix) || equals == std::string_view::npos || equals + 1 == entry.size()) continue;
    const std::string_view id = entry.substr(kPerIdPrefix.size(), equals - kPerIdPrefix.size());
    // The file is the more deliberate source.
    if (!id.empty()) auth.by_id.emplace(std::string(id), std::string(entry.substr(equals + 1)));
  }
}

}  // namespace

bool same_secret(std::string_view expected, std::string_view given) {
  if (expected.empty() || expected.size() != given.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const volatile unsigned char a = static_cast<unsigned char>(expected[i]);
    const volatile unsigned char b = static_cast<unsigned char>(given[i]);
    difference |= static_cast<unsigned>(a ^ b);
  }
  return difference == 0;
}

Result<RelayAuth> RelayAuth::make(std::string shared_token, std::string exec_token, std::string_view tokens_json,
                                  const char* const* environment) {
  RelayAuth auth{std::move(shared_token), {}, std::move(exec_token)};
  if (!tokens_json.empty()) ROOST_TRY_VOID(read_tokens_file(tokens_json, auth));
  read_environment(environment, auth);
  if (!auth.exec_token.empty() && auth.known_attach_token(auth.exec_token)) {
    return {ErrorKind::bad_config,
            "relay.exec_token: equals a token that sandboxes attach with; a sandbox could call Exec on the others. "
            "Choose another one"};
  }
  return auth;
}

bool RelayAuth::known_attach_token(std::string_view token) const {
  bool known = same_secret(shared_token, token);
  // Every entry is compared, so that the time tells nothing about which one matched.
  for (const auto& [id, expected] : by_id) known |= same_secret(expected, token);
  return known;
}

bool RelayAuth::may_attach(std::string_view id, std::string_view token) const {
  const auto own = by_id.find(id);
  return same_secret(own == by_id.end() ? shared_token : own->second, token);
}

}  // namespace roost::sandbox
