#include "api/generation.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <utility>

#include "api/answer_shape.h"
#include "api/ask.h"
#include "api/generation_output.h"
#include "api/prepare.h"
#include "api/respond.h"
#include "api/sse_answer.h"
#include "api/wakeup.h"
#include "core/ids.h"
#include "net/sse.h"

namespace roost::api {
namespace {

using std::chrono::steady_clock;

std::string_view id_prefix(Route route) { return route == Route::chat ? "chatcmpl-" : "cmpl-"; }

// One request in flight.
class Generation {
 public:
  Generation(ApiContext& context, net::Exchange& exchange, GenerationRequest request, Prepared prepared)
      : context_(context),
        exchange_(exchange),
        request_(std::move(request)),
        id_(context.new_request_id()),
        wakeup_(std::make_shared<Wakeup>(exchange.executor())),
        ring_(std::make_shared<engine::EventRing>([wakeup = wakeup_] { wakeup->notify(); })),
        output_(context.text, request_, prepared),
        shape_(make_answer_shape(request_.route, answer_id())),
        sse_(context, exchange),
        prompt_(std::move(prepared.prompt)),
        sampler_(std::move(prepared.sampler)) {}

  net::awaitable<void> run() {
    if (!context_.engine.post(make_submit())) {
      Error error = not_taken(context_.engine);
      co_await respond_error(context_, exchange_, std::move(error));
      co_return;
    }
    const auto subscription = exchange_.aborted().subscribe([wakeup = wakeup_] { wakeup->signal(); });
    if (request_.stream.stream && request_.stream.keepalive) co_await ping();
    while (!ended_) {
      std::optional<engine::Event> event = ring_->pop();
      if (event) {
        take(std::move(*event));
        if (output_.stopped() && !cancelled_) send_cancel(engine::FinishReason::stop);
      } else {
        co_await between_events();
      }
      if (gone()) {
        send_cancel(engine::FinishReason::cancelled);
        co_return;
      }
    }
    co_await end();
  }

 private:
  AnswerId answer_id() const {
    return {std::string(id_prefix(request_.route)) + random_hex(12),
            static_cast<std::int64_t>(context_.clock.unix_seconds()), context_.text.info().name,
            request_.stream.include_usage, request_.logprobs};
  }

  engine::Submit make_submit() {
    engine::Submit submit;
    submit.id = id_;
    submit.prompt = std::move(prompt_);
    submit.session_id = request_.session_id;
    submit.cache_salt = request_.cache_salt;
    submit.pool_id = request_.pool_id;
    submit.pool_strict = request_.pool_strict;
    submit.shared_prefix_n_tokens = request_.shared_prefix_n_tokens;
    submit.id_slot = request_.id_slot;
    submit.max_tokens = request_.max_tokens;
    submit.cache_prompt = request_.cache_prompt;
    submit.ignore_eos = request_.sampling.ignore_eos;
    submit.want_progress = request_.stream.stream;
    submit.sampler = std::move(sampler_);
    submit.events = ring_;
    return submit;
  }

  bool gone() { return exchange_.aborted().requested() || !sse_.alive(); }

  void take(engine::Event event) {
    std::visit([this](auto& e) { on(e); }, event);
  }
  void on(engine::Admitted& e) {
    phase_ = fmt::format("prefill {}/{}", e.n_cached, e.n_prompt);
    admitted_ = true;
    output_.take(std::move(e));
  }
  void on(const engine::PrefillProgress& e) { phase_ = fmt::format("prefill {}/{}", e.done, e.total); }
  void on(const engine::TokenDrawn& e) { output_.take(e); }
  void on(engine::Finished& e) {
    ended_ = true;
    if (e.reason == engine::FinishReason::cancelled) {
      failure_ = Error{ErrorKind::cancelled,
                       "the generation was cancelled (the client read too slowly, or the engine stops)",
                       {},
                       {}};
    }
    output_.take(std::move(e));
  }
  void on(engine::Failed& e) {
    ended_ = true;
    failure_ = std::move(e.error);
  }

  // Nothing more has come: show what there is, then wait.
  net::awaitable<void> between_events() {
    if (request_.stream.stream && output_.pending()) {
      co_await show();
      co_return;  // more may have come meanwhile
    }
    const double interval = request_.stream.stream ? request_.stream.ping_interval_s : 0;
    if (interval <= 0) {
      co_await wakeup_->wait(Wakeup::Time::max());
      co_return;
    }
    const auto due =
        sse_.last_write() + std::chrono::duration_cast<steady_clock::duration>(std::chrono::duration<double>(interval));
    if (steady_clock::now() >= due) {
      co_await ping();
    } else {
      co_await wakeup_->wait(due);
    }
  }

  net::awaitable<void> ping() {
    std::string text = "keepalive " + (output_.drawn() > 0 ? fmt::format("generating {}", output_.drawn()) : phase_);
    net::Headers headers = attach_headers();
    co_await sse_.open(std::move(headers));
    co_await sse_.comment(std::move(text));
  }

  net::awaitable<void> show() {
    net::Headers headers = attach_headers();
    co_await sse_.open(std::move(headers));
    const std::vector<engine::ChatDelta> deltas = output_.next();
    std::string events;
    if (!first_shown_) {
      for (const json::object& event : shape_->first()) append(events, event);
      first_shown_ = true;
    }
    for (const engine::ChatDelta& delta : deltas) append(events, shape_->piece(delta, output_.take_logprobs()));
    if (!events.empty()) co_await sse_.raw(std::move(events));
  }

  // What the client may know as soon as the request is routed.
  net::Headers attach_headers() const {
    net::Headers headers;
    const engine::Admitted& a = output_.outcome().admitted;
    if (admitted_ && a.pool_id != kv::kNoPool) {
      headers.set("x-pool-id", std::to_string(a.pool_id));
      headers.set("x-cached-prefix-tokens", std::to_string(a.n_cached));
    }
    return headers;
  }

  static void append(std::string& events, const json::object& event) {
    events += net::format_sse(json::serialize(event));
  }

  // The queue never refuses a Cancel, unless the engine has stopped: then everything has ended already.
  void send_cancel(engine::FinishReason finish) {
    cancelled_ = true;
    static_cast<void>(context_.engine.post(engine::Cancel{id_, finish}));
  }

  net::awaitable<void> end() {
    if (failure_) {
      Error error = std::move(*failure_);
      if (sse_.opened()) {
        co_await sse_.fail(std::move(error));
      } else {
        co_await respond_error(context_, exchange_, std::move(error));
      }
    } else if (request_.stream.stream) {
      co_await end_stream();
    } else {
      co_await answer_whole();
    }
  }

  net::awaitable<void> end_stream() {
    co_await show();
    const bool calls = !output_.message().tool_calls.empty();
    std::string events;
    for (const json::object& event : shape_->last(calls, output_.take_logprobs(), output_.outcome()))
      append(events, event);
    co_await sse_.raw(std::move(events));
    co_await sse_.finish(shape_->ends_with_done());
  }

  net::awaitable<void> answer_whole() {
    output_.next();
    const json::object body = shape_->whole(output_.message(), output_.all_logprobs(), output_.outcome());
    net::Response response = net::Response::json(200, body);
    for (const auto& [name, value] : attach_headers()) response.headers.set(name, value);
    response.headers.set("x-session-tps", fmt::format("{:.2f}", output_.outcome().finished.timings.tps_ewma));
    co_await respond(context_, exchange_, std::move(response));
  }

  ApiContext& context_;
  net::Exchange& exchange_;
  GenerationRequest request_;
  const engine::RequestId id_;
  std::shared_ptr<Wakeup> wakeup_;
  std::shared_ptr<engine::EventRing> ring_;
  GenerationOutput output_;
  std::unique_ptr<AnswerShape> shape_;
  SseAnswer sse_;
  kv::Tokens prompt_;
  std::unique_ptr<engine::Sampler> sampler_;
  std::string phase_ = "queued";
  bool admitted_ = false;
  bool first_shown_ = false;
  bool cancelled_ = false;
  bool ended_ = false;
  std::optional<Error> failure_;
};

Result<std::pair<GenerationRequest, Prepared>> read_request(const ApiContext& context, const net::Request& http,
                                                            Route route) {
  ROOST_TRY(body, parse_json_object(http.body));
  ROOST_TRY(request, parse_generation(route, body, request_limits(context)));
  if ((request.pool_id || request.shared_prefix_n_tokens) && !context.pools_on()) {
    return {ErrorKind::pools_off, "pools are off (--polykv-max-pools 0): 'pool_id' cannot be used"};
  }
  ROOST_TRY(prepared, prepare(context, request));
  return std::pair(std::move(request), std::move(prepared));
}

}  // namespace

net::awaitable<void> serve_generation(ApiContext& context, net::Exchange& exchange, Route route) {
  auto read = read_request(context, exchange.request(), route);
  if (!read) {
    Error error = std::move(read).error();
    co_await respond_error(context, exchange, std::move(error));
    co_return;
  }
  auto generation = std::make_unique<Generation>(context, exchange, std::move(read->first), std::move(read->second));
  co_await generation->run();
}

}  // namespace roost::api
