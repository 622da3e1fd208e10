#include "agent/credentials.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <vector>

namespace roost::agent {
namespace {

// Names that end otherwise than in one of kSuffixes.
constexpr std::string_view kNames[] = {
    "ANTHROPIC_AUTH_TOKEN", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
    "GITHUB_TOKEN",         "GH_TOKEN", "OPENAI_ACCESS_TOKEN"};
constexpr std::string_view kSuffixes[] = {"_API_KEY", "_API_TOKEN"};

}  // namespace

bool holds_provider_secret(std::string_view name) {
  return std::ranges::find(kNames, name) != std::end(kNames) ||
         std::ranges::any_of(kSuffixes, [&](std::string_view suffix) { return name.ends_with(suffix); });
}

std::unique_ptr<EnvironmentCredentials> scrub_environment() {
  std::map<std::string, std::string, std::less<>> taken;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view line(*entry);
    const auto equals = line.find('=');
    if (equals == std::string_view::npos || !holds_provider_secret(line.substr(0, equals))) continue;
    // A marker is what an earlier scrub (of a parent, or before a re-execution) left.
    if (line.substr(equals + 1) == kScrubbedMarker) continue;
    taken.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  for (const auto& [name, value] : taken) ::setenv(name.c_str(), std::string(kScrubbedMarker).c_str(), 1);
  return std::make_unique<EnvironmentCredentials>(std::move(taken));
}

std::optional<std::string> EnvironmentCredentials::variable(std::string_view name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? std::nullopt : std::optional(found->second);
}

asio::awaitable<Result<std::optional<Credential>>> EnvironmentCredentials::find(std::string provider, std::string) {
  std::string prefix = provider;
  std::ranges::transform(prefix, prefix.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  std::optional<Credential> credential;
  for (const std::string_view suffix : {"_API_KEY", "_AUTH_TOKEN"}) {
    if (credential) break;
    if (auto value = variable(prefix + std::string(suffix)); value && !value->empty()) credential = Credential{*value};
  }
  co_return credential;
}

}  // namespace roost::agent
