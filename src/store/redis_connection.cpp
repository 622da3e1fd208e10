#include "store/redis_connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "core/log.h"

namespace roost::store {
namespace {

using asio::ip::tcp;
using boost::system::error_code;
using Endpoint = asio::generic::stream_protocol::endpoint;

constexpr std::chrono::milliseconds kFirstBackoff{50};
constexpr std::chrono::milliseconds kMaxBackoff{2'000};
constexpr std::chrono::seconds kConnectTimeout{5};
constexpr std::size_t kReadBytes = 64 * 1024;
constexpr std::size_t kMaxWaiting = 65'536;  // commands without an answer; more are refused

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

// Error replies that speak of the server's state rather than of the command: the command would work later.
constexpr std::string_view kStateErrors[] = {"LOADING", "MASTERDOWN", "READONLY", "MISCONF",     "OOM",
                                             "NOAUTH",  "TRYAGAIN",   "BUSY ",    "CLUSTERDOWN", "NOREPLICAS"};

Error error_of_reply(std::string_view text) {
  const bool state =
      std::ranges::any_of(kStateErrors, [&](std::string_view prefix) { return text.starts_with(prefix); });
  return {state ? ErrorKind::redis_unavailable : ErrorKind::internal, fmt::format("Redis: {}", text), {}, {}};
}

RedisReply convert(const redisReply& from) {
  RedisReply to;
  switch (from.type) {
    case REDIS_REPLY_INTEGER:
      to.type = RedisReply::Type::integer;
      to.integer = from.integer;
      break;
    case REDIS_REPLY_STRING:
      to.type = RedisReply::Type::string;
      to.text.assign(from.str, from.len);
      break;
    case REDIS_REPLY_STATUS:
    case REDIS_REPLY_ERROR:  // inside an array only
      to.type = RedisReply::Type::status;
      to.text.assign(from.str, from.len);
      break;
    case REDIS_REPLY_ARRAY:
      to.type = RedisReply::Type::array;
      to.elements.reserve(from.elements);
      for (std::size_t i = 0; i < from.elements; ++i) to.elements.push_back(convert(*from.element[i]));
      break;
    default:
      break;  // nil; RESP3's other types are never asked for
  }
  return to;
}

}  // namespace

std::string encode_command(const std::vector<std::string>& arguments) {
  std::string out = fmt::format("*{}\r\n", arguments.size());
  for (const std::string& a : arguments) {
    fmt::format_to(std::back_inserter(out), "${}\r\n", a.size());
    out += a;
    out += "\r\n";
  }
  return out;
}

RedisConnection::RedisConnection(asio::any_io_executor executor, RedisUrl url)
    : executor_(std::move(executor)), url_(std::move(url)), socket_(executor_), retry_(executor_), input_(kReadBytes) {}

void RedisConnection::start() {
  asio::co_spawn(
      executor_, [self = shared_from_this()] { return self->run(); },
      [self = shared_from_this()](const std::exception_ptr&) {});
}

void RedisConnection::close() {
  if (closed_) return;
  closed_ = true;
  retry_.cancel();
  drop("closed");
  wake_connect_waiters();
}

asio::awaitable<void> RedisConnection::run() {
  auto backoff = kFirstBackoff;
  bool reported = false;  // one line per outage, not one per attempt
  while (!closed_) {
    auto up = co_await connect();
    if (closed_) break;
    if (up.ok()) {
      backoff = kFirstBackoff;
      reported = false;
      connected_ = true;
      ++connections_;
      log::info("redis_connected", {{"url", url_.printable()}});
      wake_connect_waiters();
      co_await read_until_lost();
    } else {
      drop(up.error().message);
    }
    if (closed_) break;
    if (!std::exchange(reported, true)) log::warn("redis_away", {{"url", url_.printable()}, {"why", last_error_}});
    retry_.expires_after(backoff);
    co_await retry_.async_wait(kTuple);
    backoff = std::min(backoff * 2, kMaxBackoff);
  }
}

asio::awaitable<Result<void>> RedisConnection::connect() {
  ++generation_;
  writing_ = false;
  outgoing_.clear();
  reader_.reset(redisReaderCreate());
  if (reader_ == nullptr) co_return Error{ErrorKind::redis_unavailable, "out of memory", {}, {}};

  // The flag makes an expiry that is already queued when the hand-shake ends harmless.
  auto armed = std::make_shared<bool>(true);
  asio::steady_timer deadline(executor_, kConnectTimeout);
  deadline.async_wait([armed, self = shared_from_this()](error_code ec) {
    error_code ignored;
    if (!ec && *armed) self->socket_.close(ignored);
  });
  auto done = co_await connect_socket();
  if (done.ok()) done = co_await handshake();
  *armed = false;
  co_return done;
}

asio::awaitable<Result<void>> RedisConnection::connect_socket() {
  std::vector<Endpoint> endpoints;
  if (!url_.unix_path.empty()) {
    if (url_.unix_path.size() > 107) {
      co_return Error{ErrorKind::redis_unavailable, "the socket's path is longer than 107 bytes", {}, {}};
    }
    endpoints.emplace_back(asio::local::stream_protocol::endpoint(url_.unix_path));
  } else {
    tcp::resolver resolver(executor_);
    const auto [ec, found] = co_await resolver.async_resolve(url_.host, std::to_string(url_.port), kTuple);
    if (ec) co_return Error{ErrorKind::redis_unavailable, fmt::format("resolve: {}", ec.message()), {}, {}};
    for (const auto& entry : found) endpoints.emplace_back(entry.endpoint());
  }
  error_code last = asio::error::host_not_found;
  for (const Endpoint& endpoint : endpoints) {
    error_code ignored;
    socket_.close(ignored);
    const auto [ec] = co_await socket_.async_connect(endpoint, kTuple);
    last = ec;
    if (ec == asio::error::operation_aborted) break;  // the deadline, or close()
    if (ec) continue;
    if (url_.unix_path.empty()) {
      socket_.set_option(tcp::no_delay(true), ignored);
      socket_.set_option(asio::socket_base::keep_alive(true), ignored);
    }
    co_return Result<void>{};
  }
  co_return Error{ErrorKind::redis_unavailable, fmt::format("connect: {}", last.message()), {}, {}};
}

// AUTH and SELECT as the URL asks, and a PING, because a server that still loads its file accepts connections already.
asio::awaitable<Result<void>> RedisConnection::handshake() {
  std::string commands;
  std::size_t expected = 0;
  const auto add = [&](const std::vector<std::string>& arguments) {
    commands += encode_command(arguments);
    ++expected;
  };
  if (!url_.password.empty()) {
    add(url_.user.empty() ? std::vector<std::string>{"AUTH", url_.password}
                          : std::vector<std::string>{"AUTH", url_.user, url_.password});
  }
  if (url_.database != 0) add({"SELECT", std::to_string(url_.database)});
  add({"PING"});

  const auto [ec, n] = co_await asio::async_write(socket_, asio::buffer(commands), kTuple);
  if (ec) co_return Error{ErrorKind::redis_unavailable, fmt::format("write: {}", ec.message()), {}, {}};
  while (expected > 0) {
    auto reply = parsed_reply();
    if (!reply) {
      const bool more = co_await read_some();
      if (!more) co_return Error{ErrorKind::redis_unavailable, "the connection closed during the hand-shake", {}, {}};
      continue;
    }
    if (!reply->ok()) co_return reply->error();
    --expected;
  }
  co_return Result<void>{};
}

asio::awaitable<bool> RedisConnection::read_some() {
  const auto [ec, n] = co_await socket_.async_read_some(asio::buffer(input_), kTuple);
  if (ec) {
    if (socket_.is_open()) drop(fmt::format("read: {}", ec.message()));  // else dropped already, with a reason
    co_return false;
  }
  last_received_ = std::chrono::steady_clock::now();
  if (redisReaderFeed(reader_.get(), input_.data(), n) != REDIS_OK) {
    drop(fmt::format("protocol: {}", reader_->errstr));
    co_return false;
  }
  co_return true;
}

std::optional<Result<RedisReply>> RedisConnection::parsed_reply() {
  void* raw = nullptr;
  if (redisReaderGetReply(reader_.get(), &raw) != REDIS_OK) {
    drop(fmt::format("protocol: {}", reader_->errstr));
    return std::nullopt;
  }
  if (raw == nullptr) return std::nullopt;
  auto* reply = static_cast<redisReply*>(raw);
  std::optional<Result<RedisReply>> out;
  if (reply->type == REDIS_REPLY_ERROR) {
    out.emplace(error_of_reply(std::string_view(reply->str, reply->len)));
  } else {
    out.emplace(convert(*reply));
  }
  freeReplyObject(reply);
  return out;
}

asio::awaitable<void> RedisConnection::read_until_lost() {
  while (connected_) {
    while (connected_) {
      auto reply = parsed_reply();
      if (!reply) break;
      if (waiting_.empty()) {
        drop("protocol: an answer that nobody asked for");
        co_return;
      }
      const auto entry = std::move(waiting_.front());
      waiting_.pop_front();
      entry->result = *std::move(reply);
      entry->wake.cancel();
    }
    if (!connected_) co_return;
    const bool more = co_await read_some();
    if (!more) co_return;
  }
}

asio::awaitable<Result<RedisReply>> RedisConnection::command(std::vector<std::string> arguments,
                                                             std::chrono::milliseconds timeout) {
  const auto self = shared_from_this();
  if (arguments.empty()) co_return Error{ErrorKind::internal, "an empty Redis command", {}, {}};
  if (!connected_) co_return unavailable();
  if (waiting_.size() >= kMaxWaiting) {
    co_return Error{ErrorKind::redis_unavailable, "too many commands wait for Redis", {}, {}};
  }
  const auto entry = std::make_shared<Waiting>(executor_);
  entry->sent = std::chrono::steady_clock::now();
  entry->wake.expires_after(timeout);
  waiting_.push_back(entry);
  send(encode_command(arguments));

  co_await entry->wake.async_wait(kTuple);
  if (entry->result) co_return *std::move(entry->result);
  if (last_received_ < entry->sent) drop("no answer");
  co_return Error{
      ErrorKind::redis_unavailable, fmt::format("Redis did not answer within {} ms", timeout.count()), {}, {}};
}

asio::awaitable<Result<void>> RedisConnection::wait_connected(std::chrono::milliseconds timeout) {
  const auto self = shared_from_this();
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!connected_ && !closed_ && std::chrono::steady_clock::now() < deadline) {
    const auto timer = std::make_shared<asio::steady_timer>(executor_, deadline);
    const auto at = connect_waiters_.insert(connect_waiters_.end(), timer);
    co_await timer->async_wait(kTuple);
    connect_waiters_.erase(at);
  }
  if (!connected_) co_return unavailable();
  co_return Result<void>{};
}

void RedisConnection::send(std::string_view encoded) {
  outgoing_ += encoded;
  flush();
}

// One write at a time; what comes meanwhile leaves together with the next one.
void RedisConnection::flush() {
  if (writing_ || outgoing_.empty()) return;
  writing_ = true;
  const auto bytes = std::make_shared<std::string>(std::exchange(outgoing_, {}));
  asio::async_write(socket_, asio::buffer(*bytes),
                    [self = shared_from_this(), bytes, generation = generation_](error_code ec, std::size_t) {
                      if (generation != self->generation_) return;
                      self->writing_ = false;
                      if (ec) {
                        self->drop(fmt::format("write: {}", ec.message()));
                      } else {
                        self->flush();
                      }
                    });
}

void RedisConnection::drop(std::string why) {
  last_error_ = std::move(why);
  const bool was_connected = std::exchange(connected_, false);
  error_code ignored;
  socket_.close(ignored);
  outgoing_.clear();
  if (was_connected) {
    fail_waiting(
        {ErrorKind::redis_unavailable,
         fmt::format("the connection to Redis was lost ({}); the command may have been carried out", last_error_),
         {},
         {}});
  }
}

void RedisConnection::fail_waiting(const Error& error) {
  for (auto& entry : std::exchange(waiting_, {})) {
    entry->result = error;
    entry->wake.cancel();
  }
}

void RedisConnection::wake_connect_waiters() {
  for (auto& timer : connect_waiters_) timer->cancel();
}

Error RedisConnection::unavailable() const {
  return {ErrorKind::redis_unavailable, fmt::format("Redis at {} is away: {}", url_.printable(), last_error_), {}, {}};
}

}  // namespace roost::store
