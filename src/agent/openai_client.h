// ModelClient for OpenAI's chat completions: POST {url}/v1/chat/completions, always streamed.
//
// Refusals that pass (429, 503, no connection) are tried again with jitter, honouring Retry-After, only while nothing
// of the answer has come. Whether the server is a Roost engine is asked once (GET /props): only then session_id is
// sent, because other servers refuse unknown fields.
//
// Used from one executor.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "agent/model_client.h"
#include "net/http_client.h"

namespace roost::agent {

struct RetryPolicy {
  int attempts = 4;                                // at most, the first included
  std::chrono::milliseconds first_delay{200};      // doubles; each delay is 50-100 % of it
  std::chrono::milliseconds longest_delay{4'000};  // a longer Retry-After ends the attempts
};

struct OpenAiOptions {
  std::string url = "http://127.0.0.1:8090";  // with or without a trailing /v1
  std::string api_key;                        // empty = none
  std::size_t max_connections = 64;
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds idle_timeout{600'000};     // a long prefill sends nothing
  std::chrono::milliseconds total_timeout{3'600'000};  // of one call, all attempts
  RetryPolicy retry;
};

class OpenAiClient final : public ModelClient {
 public:
  // bad_config for a URL that is not http(s)://host[:port][/path].
  static Result<std::unique_ptr<OpenAiClient>> make(asio::any_io_executor executor, OpenAiOptions options);

  asio::awaitable<Result<ModelReply>> complete(ModelRequest request, ModelListener& listener,
                                               AbortSource& abort) override;
  std::size_t connections() const { return http_.connections(); }

 private:
  OpenAiClient(asio::any_io_executor executor, net::Url url, OpenAiOptions options);

  // What one attempt came to.
  struct Attempt {
    Result<ModelReply> reply;
    bool may_retry = false;
  };
  asio::awaitable<Attempt> attempt(std::string body, ModelListener& listener, AbortSource& abort);
  asio::awaitable<Result<ModelReply>> read_reply(net::ResponseStream& stream, ModelListener& listener);
  asio::awaitable<bool> is_roost_engine(AbortSource& abort);
  net::ClientRequest request_for(std::string method, std::string target, std::string body) const;

  asio::any_io_executor executor_;
  OpenAiOptions options_;
  net::HttpClient http_;
  std::optional<bool> roost_engine_;  // empty = not known yet
};

// The request's body.
json::object openai_body(const ModelRequest& request, bool roost_engine);

// How long to wait before attempt `next` (2, 3, ...); `random` is from 0 to 1. Empty = do not try again. Pure.
std::optional<std::chrono::milliseconds> retry_delay(const RetryPolicy& policy, int next,
                                                     std::optional<int> retry_after_s, double random);

}  // namespace roost::agent
