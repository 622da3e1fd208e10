#include "store/redis.h"

#include "store/digest.h"
#include "store/redis_connection.h"

namespace roost::store {

struct Redis::Impl {
  std::shared_ptr<RedisConnection> connection;
};

Redis::Redis(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Redis::~Redis() { close(); }

Result<std::shared_ptr<Redis>> Redis::open(asio::any_io_executor executor, std::string_view url) {
  ROOST_TRY(parsed, parse_redis_url(url));
  auto impl = std::make_shared<Impl>();
  impl->connection = std::make_shared<RedisConnection>(std::move(executor), std::move(parsed));
  impl->connection->start();
  return std::shared_ptr<Redis>(new Redis(std::move(impl)));
}

asio::awaitable<Result<RedisReply>> Redis::command(std::vector<std::string> arguments,
                                                   std::chrono::milliseconds timeout) {
  return impl_->connection->command(std::move(arguments), timeout);
}

asio::awaitable<Result<RedisReply>> Redis::script(std::string_view source, std::vector<std::string> keys,
                                                  std::vector<std::string> arguments) {
  const auto connection = impl_->connection;  // outlives `this` while the answer is waited for
  std::vector<std::string> words{"EVALSHA", sha1_hex(source), std::to_string(keys.size())};
  words.insert(words.end(), std::make_move_iterator(keys.begin()), std::make_move_iterator(keys.end()));
  words.insert(words.end(), std::make_move_iterator(arguments.begin()), std::make_move_iterator(arguments.end()));
  const std::string whole(source);
  constexpr auto kTimeout = std::chrono::seconds(5);
  auto reply = co_await connection->command(words, kTimeout);
  if (reply.ok() || !reply.error().message.starts_with("Redis: NOSCRIPT")) co_return reply;
  words[0] = "EVAL";
  words[1] = whole;
  auto evaluated = co_await connection->command(std::move(words), kTimeout);
  co_return evaluated;
}

asio::awaitable<Result<void>> Redis::wait_connected(std::chrono::milliseconds timeout) {
  return impl_->connection->wait_connected(timeout);
}

bool Redis::connected() const { return impl_->connection->connected(); }
std::uint64_t Redis::connections() const { return impl_->connection->connections(); }
void Redis::close() { impl_->connection->close(); }

}  // namespace roost::store
