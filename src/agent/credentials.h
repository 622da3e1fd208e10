// Who pays for a model call. Credentials are objects that a request is given; nothing else may read a provider key.
//
// scrub_environment() is called once at the start of every entry point, before any thread: it takes provider keys and
// tokens out of the process's environment into a store and leaves a fixed marker, so that no tool, child process or
// library finds them there.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"

namespace roost::agent {

namespace asio = boost::asio;

inline constexpr std::string_view kScrubbedMarker = "scrubbed-by-roost";

// A secret; never printed.
struct Credential {
  std::string secret;
};

class CredentialStore {
 public:
  virtual ~CredentialStore() = default;
  // The credential of `provider` ("openai", "anthropic", ...) for the requests of `subject` (empty = the operator's
  // own). Empty when there is none.
  virtual asio::awaitable<Result<std::optional<Credential>>> find(std::string provider, std::string subject) = 0;
};

// The operator's keys, as they were in the environment. The same for every subject.
class EnvironmentCredentials final : public CredentialStore {
 public:
  explicit EnvironmentCredentials(std::map<std::string, std::string, std::less<>> variables)
      : variables_(std::move(variables)) {}
  asio::awaitable<Result<std::optional<Credential>>> find(std::string provider, std::string subject) override;

  // For the start, before anything runs: the value that variable `name` had.
  std::optional<std::string> variable(std::string_view name) const;

 private:
  std::map<std::string, std::string, std::less<>> variables_;
};

// Is this variable a provider's key or token?
bool holds_provider_secret(std::string_view name);

// Not thread-safe (it changes the environment): call it first.
std::unique_ptr<EnvironmentCredentials> scrub_environment();

}  // namespace roost::agent
