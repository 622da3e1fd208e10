#include "agent/openai_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <charconv>
#include <random>

#include "agent/openai_stream.h"
#include "net/sse.h"

namespace roost::agent {
namespace {

constexpr std::size_t kErrorBody = 64 * 1024;          // bytes of an error answer that are read
constexpr std::size_t kWholeAnswer = 2 * kReplyBytes;  // an answer that is not a stream
constexpr int kLongestRetryAfter = 3'600;

std::optional<int> retry_after_of(const net::Headers& headers) {
  const std::string_view text = headers.get("Retry-After");
  int seconds = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (text.empty() || ec != std::errc{} || end != text.data() + text.size() || seconds < 0) return std::nullopt;
  return std::min(seconds, kLongestRetryAfter);
}

double random_fraction() {
  static thread_local std::minstd_rand generator(std::random_device{}());
  return std::uniform_real_distribution<double>(0.0, 1.0)(generator);
}

json::value choice_json(const ToolChoice& choice) {
  switch (choice.mode) {
    case ToolChoice::Mode::automatic:
      return "auto";
    case ToolChoice::Mode::none:
      return "none";
    case ToolChoice::Mode::required:
      return "required";
    case ToolChoice::Mode::named:
      break;
  }
  return json::object{{"type", "function"}, {"function", json::object{{"name", choice.name}}}};
}

// Waits; false when the abort came first.
asio::awaitable<bool> wait_or_abort(asio::any_io_executor executor, std::chrono::milliseconds delay,
                                    AbortSource& abort) {
  asio::steady_timer timer(executor, delay);
  const auto subscription = abort.subscribe([&timer] { timer.cancel(); });
  if (!abort.requested()) co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  co_return !abort.requested();
}

// What the transport says, in the turn's words.
Error transport_error(Error error, const std::string& url) {
  if (error.kind == ErrorKind::unavailable || error.kind == ErrorKind::io) {
    error.kind = ErrorKind::model_unavailable;
    error.message = fmt::format("the model tier at {} is not reachable: {}", url, error.message);
  } else if (error.kind == ErrorKind::timeout) {
    error.kind = ErrorKind::model_unavailable;
    error.message = fmt::format("the model tier at {} does not answer: {}", url, error.message);
  }
  return error;
}

}  // namespace

json::object openai_body(const ModelRequest& request, bool roost_engine) {
  json::array messages;
  for (const Message& message : request.messages) messages.push_back(to_openai(message));
  json::object body{{"model", request.model},
                    {"messages", std::move(messages)},
                    {"stream", true},
                    {"stream_options", json::object{{"include_usage", true}}},
                    {"max_tokens", request.max_tokens}};
  if (!request.tools.empty()) {
    body["tools"] = to_openai(request.tools);
    if (request.tool_choice) body["tool_choice"] = choice_json(*request.tool_choice);
  }
  if (request.temperature) body["temperature"] = *request.temperature;
  if (request.seed) body["seed"] = *request.seed;
  if (roost_engine && !request.session_id.empty()) body["session_id"] = request.session_id;
  if (request.pool_id) body["pool_id"] = *request.pool_id;
  return body;
}

std::optional<std::chrono::milliseconds> retry_delay(const RetryPolicy& policy, int next,
                                                     std::optional<int> retry_after_s, double random) {
  if (next > policy.attempts) return std::nullopt;
  auto delay = policy.first_delay;
  for (int i = 2; i < next && delay < policy.longest_delay; ++i) delay *= 2;
  delay = std::min(delay, policy.longest_delay);
  delay = std::chrono::milliseconds(static_cast<std::int64_t>(static_cast<double>(delay.count()) * (0.5 + random / 2)));
  if (!retry_after_s) return delay;
  const std::chrono::milliseconds asked = std::chrono::seconds(*retry_after_s);
  if (asked > policy.longest_delay) return std::nullopt;  // the client can wait better than we
  return std::max(delay, asked);
}

Result<std::unique_ptr<OpenAiClient>> OpenAiClient::make(asio::any_io_executor executor, OpenAiOptions options) {
  auto url = net::parse_url(options.url);
  if (!url.ok()) {
    return {ErrorKind::bad_config, fmt::format("worker.model_url: {}", url.error().message)};
  }
  if (url->path.ends_with("/v1")) url->path.resize(url->path.size() - 3);
  return std::unique_ptr<OpenAiClient>(new OpenAiClient(std::move(executor), *std::move(url), std::move(options)));
}

OpenAiClient::OpenAiClient(asio::any_io_executor executor, net::Url url, OpenAiOptions options)
    : executor_(executor),
      options_(std::move(options)),
      http_(
          std::move(executor), std::move(url),
          net::ClientOptions{options_.connect_timeout, options_.idle_timeout, options_.max_connections, kWholeAnswer}) {
}

net::ClientRequest OpenAiClient::request_for(std::string method, std::string target, std::string body) const {
  net::ClientRequest request;
  request.method = std::move(method);
  request.target = std::move(target);
  request.body = std::move(body);
  if (!request.body.empty()) request.headers.add("Content-Type", "application/json");
  if (!options_.api_key.empty()) request.headers.add("Authorization", "Bearer " + options_.api_key);
  return request;
}

asio::awaitable<bool> OpenAiClient::is_roost_engine(AbortSource& abort) {
  if (roost_engine_) co_return *roost_engine_;
  net::ClientRequest request = request_for("GET", "/props", {});
  auto answer = co_await http_.fetch(std::move(request), &abort);
  if (!answer.ok() || answer->status >= 500) co_return false;  // asked again at the next call
  bool is_roost = false;
  if (auto props = parse_json_object(answer->body); answer->status == 200 && props.ok()) {
    is_roost = props->contains("features") || props->contains("opencoti");
  }
  roost_engine_ = is_roost;
  co_return is_roost;
}

asio::awaitable<Result<ModelReply>> OpenAiClient::complete(ModelRequest request, ModelListener& listener,
                                                           AbortSource& abort) {
  // One source for this call: the turn's abort and the call's own time-out.
  AbortSource call_abort;
  const auto forward = abort.subscribe([&] { call_abort.request(abort.reason()); });
  asio::steady_timer total(executor_, options_.total_timeout);
  auto armed = std::make_shared<AbortSource*>(&call_abort);
  total.async_wait([armed](boost::system::error_code ec) {
    if (!ec && *armed != nullptr) (*armed)->request("model_timeout");
  });

  const bool roost_engine = co_await is_roost_engine(call_abort);
  const std::string body = json::serialize(openai_body(request, roost_engine));
  Result<ModelReply> outcome = Error{ErrorKind::cancelled, "the turn was aborted", {}, {}};
  for (int number = 1; !call_abort.requested(); ++number) {
    Attempt made = co_await attempt(body, listener, call_abort);
    outcome = std::move(made.reply);
    if (outcome.ok() || !made.may_retry || call_abort.requested()) break;
    const auto delay = retry_delay(options_.retry, number + 1, outcome.error().retry_after_s, random_fraction());
    if (!delay) break;
    const bool go_on = co_await wait_or_abort(executor_, *delay, call_abort);
    if (!go_on) break;
  }
  *armed = nullptr;
  if (!outcome.ok() && call_abort.requested()) {
    if (call_abort.reason() == "model_timeout") {
      co_return Error{ErrorKind::timeout,
                      fmt::format("the model call took longer than {} s", options_.total_timeout.count() / 1000),
                      {},
                      {}};
    }
    co_return Error{ErrorKind::cancelled, "the turn was aborted", {}, {}};
  }
  co_return outcome;
}

asio::awaitable<OpenAiClient::Attempt> OpenAiClient::attempt(std::string body, ModelListener& listener,
                                                             AbortSource& abort) {
  net::ClientRequest request = request_for("POST", "/v1/chat/completions", std::move(body));
  auto stream = co_await http_.open(std::move(request), &abort);
  if (!stream.ok()) {
    const bool may_retry = stream.error().kind == ErrorKind::unavailable;
    co_return Attempt{transport_error(std::move(stream).error(), options_.url), may_retry};
  }
  if (stream->status() != 200) {
    const int status = stream->status();
    const auto retry_after = retry_after_of(stream->headers());
    auto text = co_await stream->read_all(kErrorBody);
    const std::string shown = text.ok() ? *std::move(text) : std::string();
    co_return Attempt{model_tier_error(status, shown, retry_after), status == 429 || status == 503};
  }
  co_await listener.on_accepted();
  auto reply = co_await read_reply(*stream, listener);
  co_return Attempt{std::move(reply), false};
}

asio::awaitable<Result<ModelReply>> OpenAiClient::read_reply(net::ResponseStream& stream, ModelListener& listener) {
  OpenAiStream assembly;
  net::SseParser parser;
  std::vector<net::SseEvent> events;
  // A server that ignores stream:true answers one JSON text.
  if (!stream.headers().get("Content-Type").starts_with("text/event-stream")) {
    auto whole = co_await stream.read_all(kWholeAnswer);
    if (!whole.ok()) co_return transport_error(std::move(whole).error(), options_.url);
    auto text = assembly.feed(*whole);
    if (!text.ok()) co_return std::move(text).error();
    if (!text->empty()) co_await listener.on_text(*std::move(text));
    co_return assembly.take();
  }
  while (!assembly.done()) {
    auto piece = co_await stream.next();
    if (!piece.ok()) co_return transport_error(std::move(piece).error(), options_.url);
    if (!piece->has_value()) break;
    events.clear();
    parser.feed(**piece, events);
    for (const net::SseEvent& event : events) {
      auto text = assembly.feed(event.data);
      if (!text.ok()) co_return std::move(text).error();
      if (text->empty()) continue;
      co_await listener.on_text(*std::move(text));
    }
  }
  if (!assembly.complete()) {
    co_return Error{ErrorKind::model_unavailable, "the model tier's stream ended before the reply did", {}, {}};
  }
  // The rest of the body (its last chunk) gives the connection back to the pool.
  while (true) {
    auto rest = co_await stream.next();
    if (!rest.ok() || !rest->has_value()) break;
  }
  co_return assembly.take();
}

}  // namespace roost::agent
