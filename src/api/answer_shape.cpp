#include "api/answer_shape.h"

#include <utility>

namespace roost::api {
namespace {

using engine::ChatDelta;
using engine::ChatMessage;
using engine::ToolCall;

json::object tool_call_json(const ToolCall& call) {
  return {{"id", call.id},
          {"type", "function"},
          {"function", json::object{{"name", call.name}, {"arguments", call.arguments}}}};
}

// What both OpenAI routes have in common.
class OpenAiShape : public AnswerShape {
 public:
  explicit OpenAiShape(AnswerId id) : id_(std::move(id)) {}
  bool ends_with_done() const override { return true; }

  std::vector<json::object> last(bool has_tool_calls, const std::vector<TokenLogprob>& logprobs,
                                 const Outcome& outcome) override {
    std::vector<json::object> events;
    json::object end = envelope();
    json::object choice = empty_choice();
    if (id_.logprobs && !logprobs.empty()) choice["logprobs"] = logprobs_json(logprobs);
    choice["finish_reason"] = finish_reason(outcome, has_tool_calls);
    end["choices"] = json::array{std::move(choice)};
    if (!id_.include_usage) {
      add_outcome(end, outcome);
      events.push_back(std::move(end));
      return events;
    }
    events.push_back(std::move(end));
    // OpenAI's usage event has no choices.
    json::object usage = envelope();
    usage["choices"] = json::array{};
    usage["usage"] = usage_block(outcome);
    add_outcome(usage, outcome);
    events.push_back(std::move(usage));
    return events;
  }

 protected:
  virtual std::string_view chunk_object() const = 0;
  virtual json::object empty_choice() const = 0;
  virtual json::object logprobs_json(const std::vector<TokenLogprob>& logprobs) = 0;

  json::object envelope() const { return envelope(chunk_object()); }
  json::object envelope(std::string_view object) const {
    return {{"id", id_.id}, {"object", object}, {"created", id_.created}, {"model", id_.model}};
  }

  AnswerId id_;
};

class ChatShape final : public OpenAiShape {
 public:
  using OpenAiShape::OpenAiShape;

  json::object whole(const ChatMessage& message, const std::vector<TokenLogprob>& logprobs,
                     const Outcome& outcome) override {
    json::object m{{"role", "assistant"}};
    const bool calls = !message.tool_calls.empty();
    if (calls && message.content.empty()) {
      m["content"] = nullptr;
    } else {
      m["content"] = message.content;
    }
    if (!message.reasoning.empty()) m["reasoning_content"] = message.reasoning;
    if (calls) {
      json::array list;
      for (const ToolCall& call : message.tool_calls) list.push_back(tool_call_json(call));
      m["tool_calls"] = std::move(list);
    }
    json::object choice{{"index", 0}, {"message", std::move(m)}, {"finish_reason", finish_reason(outcome, calls)}};
    if (id_.logprobs) choice["logprobs"] = chat_logprobs(logprobs);
    json::object body = envelope("chat.completion");
    body["choices"] = json::array{std::move(choice)};
    body["usage"] = usage_block(outcome);
    add_outcome(body, outcome);
    return body;
  }

  std::vector<json::object> first() override {
    return {chunk(json::object{{"role", "assistant"}, {"content", nullptr}})};
  }

  json::object piece(const ChatDelta& delta, const std::vector<TokenLogprob>& logprobs) override {
    json::object d;
    if (!delta.content.empty()) d["content"] = delta.content;
    if (!delta.reasoning.empty()) d["reasoning_content"] = delta.reasoning;
    if (delta.tool_index >= 0) {
      json::object call{{"index", delta.tool_index}};
      json::object function;
      if (!delta.tool_call.name.empty()) {
        call["id"] = delta.tool_call.id;
        call["type"] = "function";
        function["name"] = delta.tool_call.name;
      }
      function["arguments"] = delta.tool_call.arguments;
      call["function"] = std::move(function);
      d["tool_calls"] = json::array{std::move(call)};
    }
    json::object event = chunk(std::move(d));
    if (id_.logprobs) event["choices"].as_array()[0].as_object()["logprobs"] = chat_logprobs(logprobs);
    return event;
  }

 protected:
  std::string_view chunk_object() const override { return "chat.completion.chunk"; }
  json::object empty_choice() const override {
    return {{"index", 0}, {"delta", json::object{}}, {"finish_reason", nullptr}};
  }
  json::object logprobs_json(const std::vector<TokenLogprob>& logprobs) override { return chat_logprobs(logprobs); }

 private:
  json::object chunk(json::object delta) const {
    json::object choice = empty_choice();
    choice["delta"] = std::move(delta);
    json::object event = envelope();
    event["choices"] = json::array{std::move(choice)};
    return event;
  }
};

class CompletionShape final : public OpenAiShape {
 public:
  using OpenAiShape::OpenAiShape;

  json::object whole(const ChatMessage& message, const std::vector<TokenLogprob>& logprobs,
                     const Outcome& outcome) override {
    json::object choice{{"index", 0}, {"text", message.content}, {"finish_reason", finish_reason(outcome, false)}};
    if (id_.logprobs) {
      choice["logprobs"] = completion_logprobs(logprobs, 0);
    } else {
      choice["logprobs"] = nullptr;
    }
    json::object body = envelope();
    body["choices"] = json::array{std::move(choice)};
    body["usage"] = usage_block(outcome);
    add_outcome(body, outcome);
    return body;
  }

  std::vector<json::object> first() override { return {}; }

  json::object piece(const ChatDelta& delta, const std::vector<TokenLogprob>& logprobs) override {
    json::object choice = empty_choice();
    choice["text"] = delta.content;
    if (id_.logprobs) choice["logprobs"] = logprobs_json(logprobs);
    json::object event = envelope();
    event["choices"] = json::array{std::move(choice)};
    return event;
  }

 protected:
  std::string_view chunk_object() const override { return "text_completion"; }
  json::object empty_choice() const override {
    return {{"index", 0}, {"text", ""}, {"logprobs", nullptr}, {"finish_reason", nullptr}};
  }
  json::object logprobs_json(const std::vector<TokenLogprob>& logprobs) override {
    json::object block = completion_logprobs(logprobs, offset_);
    for (const TokenLogprob& t : logprobs) offset_ += t.bytes.size();
    return block;
  }

 private:
  std::size_t offset_ = 0;
};

// llama-server's own /completion.
class NativeShape final : public AnswerShape {
 public:
  explicit NativeShape(AnswerId id) : id_(std::move(id)) {}
  bool ends_with_done() const override { return false; }

  json::object whole(const ChatMessage& message, const std::vector<TokenLogprob>& logprobs,
                     const Outcome& outcome) override {
    json::object body = end_event(outcome);
    body["content"] = message.content;
    if (id_.logprobs) body["completion_probabilities"] = chat_logprobs(logprobs)["content"];
    return body;
  }

  std::vector<json::object> first() override { return {}; }

  json::object piece(const ChatDelta& delta, const std::vector<TokenLogprob>& logprobs) override {
    json::object event{{"index", 0}, {"content", delta.content}, {"stop", false}};
    if (id_.logprobs) event["completion_probabilities"] = chat_logprobs(logprobs)["content"];
    return event;
  }

  std::vector<json::object> last(bool /*has_tool_calls*/, const std::vector<TokenLogprob>& logprobs,
                                 const Outcome& outcome) override {
    json::object event = end_event(outcome);
    if (id_.logprobs) event["completion_probabilities"] = chat_logprobs(logprobs)["content"];
    return {std::move(event)};
  }

 private:
  json::object end_event(const Outcome& outcome) const {
    const engine::Finished& f = outcome.finished;
    json::object body{{"index", 0},
                      {"content", ""},
                      {"id_slot", outcome.admitted.slot},
                      {"stop", true},
                      {"model", id_.model},
                      {"tokens_predicted", f.timings.predicted_n},
                      {"tokens_evaluated", outcome.admitted.n_prompt},
                      {"tokens_cached", outcome.admitted.n_cached},
                      {"stop_type", stop_type(outcome)},
                      {"stopping_word", outcome.stop_string},
                      {"truncated", f.truncated}};
    add_outcome(body, outcome);
    return body;
  }

  static std::string_view stop_type(const Outcome& outcome) {
    if (!outcome.stop_string.empty()) return "word";
    return outcome.finished.reason == engine::FinishReason::length ? "limit" : "eos";
  }

  AnswerId id_;
};

}  // namespace

std::unique_ptr<AnswerShape> make_answer_shape(Route route, AnswerId id) {
  switch (route) {
    case Route::chat:
      return std::make_unique<ChatShape>(std::move(id));
    case Route::completion:
      return std::make_unique<CompletionShape>(std::move(id));
    case Route::native:
      break;
  }
  return std::make_unique<NativeShape>(std::move(id));
}

}  // namespace roost::api
