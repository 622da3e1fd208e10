#include "sandbox/grpc_common.h"

#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include <charconv>
#include <cstring>
#include <optional>

#include "core/limits.h"
#include "core/unique_fd.h"

namespace roost::sandbox {
namespace {

constexpr int kReconnectMinMs = 200;
constexpr int kReconnectMaxMs = 2000;

struct HostPort {
  std::string host;
  std::string port;
};

std::optional<HostPort> split_address(const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  HostPort parts{address.substr(0, colon), address.substr(colon + 1)};
  if (parts.host.size() > 2 && parts.host.front() == '[' && parts.host.back() == ']') {
    parts.host = parts.host.substr(1, parts.host.size() - 2);
  }
  int port = -1;
  const auto [end, error] = std::from_chars(parts.port.data(), parts.port.data() + parts.port.size(), port);
  if (error != std::errc{} || end != parts.port.data() + parts.port.size() || port < 0 || port > 65535)
    return std::nullopt;
  return parts;
}

// gRPC tells only that binding failed; binding once ourselves tells why.
Result<void> check_bindable(const std::string& address) {
  const auto parts = split_address(address);
  if (!parts) {
    return {ErrorKind::bad_config,
            fmt::format("cannot listen on '{}': give it as host:port, port 0 to 65535", address)};
  }
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int e =
          getaddrinfo(parts->host.empty() ? nullptr : parts->host.c_str(), parts->port.c_str(), &hints, &found);
      e != 0) {
    return {ErrorKind::bad_config, fmt::format("cannot listen on {}: {}", address, gai_strerror(e))};
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> list(found, freeaddrinfo);
  const UniqueFd fd(socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd.get(), list->ai_addr, list->ai_addrlen) == 0) return {};
  return {ErrorKind::bad_config,
          fmt::format("cannot listen on {}: {}{}", address, std::strerror(errno),
                      errno == EADDRINUSE ? "; stop the other process or choose another port" : "")};
}

}  // namespace

std::shared_ptr<grpc::Channel> make_channel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(limits::kGrpcMessageBytes));
  arguments.SetMaxSendMessageSize(static_cast<int>(limits::kGrpcMessageBytes));
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMinMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kReconnectMinMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMaxMs);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

std::string join_address(const std::string& host, int port) {
  const bool bare_ipv6 = host.find(':') != std::string::npos && host.front() != '[';
  return bare_ipv6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<void> check_address(std::string_view setting, const std::string& address) {
  const auto parts = split_address(address);
  if (parts && !parts->host.empty() && parts->port != "0") return {};
  return {ErrorKind::bad_config,
          fmt::format("{}: bad value '{}'; accepted: host:port, port 1 to 65535", setting, address)};
}

Result<Listener> listen_on(const std::string& address, grpc::Service& service) {
  ROOST_TRY_VOID(check_bindable(address));
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(static_cast<int>(limits::kGrpcMessageBytes));
  builder.SetMaxSendMessageSize(static_cast<int>(limits::kGrpcMessageBytes));
  // Two relays on one port would each get some of the connections.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  Listener listener;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &listener.port);
  builder.RegisterService(&service);
  listener.server = builder.BuildAndStart();
  if (!listener.server || listener.port == 0) {
    return {ErrorKind::bad_config, fmt::format("cannot listen on {}: the address is in use", address)};
  }
  return listener;
}

std::string bearer_token(const grpc::ServerContextBase& context) {
  constexpr std::string_view kScheme = "bearer ";
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find("authorization");
  if (found == metadata.end() || found->second.size() <= kScheme.size()) return {};
  const std::string_view value(found->second.data(), found->second.size());
  if (strncasecmp(value.data(), kScheme.data(), kScheme.size()) != 0) return {};
  return std::string(value.substr(kScheme.size()));
}

}  // namespace roost::sandbox
