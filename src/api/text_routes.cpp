#include "api/text_routes.h"

#include <utility>

#include "api/chat_request.h"
#include "api/generation_request.h"
#include "api/prepare.h"
#include "api/respond.h"
#include "core/utf8.h"

namespace roost::api {
namespace {

// A piece that is not a whole text is a list of its bytes, as llama-server has it.
json::value piece_json(const std::string& bytes) {
  const std::string text = to_valid_utf8(bytes);
  if (text == bytes) return json::value(text);
  json::array list;
  for (const char c : bytes) list.push_back(static_cast<int>(static_cast<unsigned char>(c)));
  return list;
}

Result<json::object> tokenize(const ApiContext& context, const net::Request& http) {
  ROOST_TRY(body, parse_json_object(http.body));
  const ObjectReader r(body);
  ROOST_TRY(content, r.string("content"));
  ROOST_TRY(add_special, r.boolean("add_special"));
  ROOST_TRY(parse_special, r.boolean("parse_special"));
  ROOST_TRY(with_pieces, r.boolean("with_pieces"));
  if (!content) return {ErrorKind::invalid_request, "'content' is required"};
  ROOST_TRY(tokens, context.text.tokenize(*content, add_special.value_or(false), parse_special.value_or(true)));
  json::array list;
  list.reserve(tokens.size());
  for (const kv::Token t : tokens) {
    if (with_pieces.value_or(false)) {
      list.push_back(json::object{{"id", t}, {"piece", piece_json(context.text.piece(t, true))}});
    } else {
      list.push_back(t);
    }
  }
  json::object answer;
  answer["tokens"] = std::move(list);
  return answer;
}

Result<json::object> detokenize(const ApiContext& context, const net::Request& http) {
  ROOST_TRY(body, parse_json_object(http.body));
  ROOST_TRY(array, ObjectReader(body).array("tokens"));
  if (array == nullptr) return {ErrorKind::invalid_request, "'tokens' is required"};
  ROOST_TRY(tokens, parse_tokens(*array, "tokens", context.text.info().vocabulary_size));
  std::string bytes;
  for (const kv::Token t : tokens) bytes += context.text.piece(t, true);
  json::object answer;
  answer["content"] = to_valid_utf8(bytes);
  return answer;
}

Result<json::object> apply_template(const ApiContext& context, const net::Request& http) {
  ROOST_TRY(body, parse_json_object(http.body));
  ROOST_TRY(chat, parse_chat(body));
  const bool parallel_set = ObjectReader(body).has("parallel_tool_calls") || names_one_function(body);
  ROOST_TRY(prompt, render(context, std::move(chat), parallel_set));
  json::object answer;
  answer["prompt"] = prompt.text;
  return answer;
}

using Work = Result<json::object> (*)(const ApiContext&, const net::Request&);

net::awaitable<void> run(ApiContext& context, net::Exchange& exchange, Work work) {
  auto answer = work(context, exchange.request());
  if (!answer) {
    Error error = std::move(answer).error();
    co_await respond_error(context, exchange, std::move(error));
    co_return;
  }
  json::value body = *std::move(answer);
  co_await respond_json(context, exchange, 200, std::move(body));
}

}  // namespace

void add_text_routes(net::Router& router, ApiContext& context) {
  const std::pair<std::string_view, Work> routes[] = {
      {"/tokenize", tokenize}, {"/detokenize", detokenize}, {"/apply-template", apply_template}};
  for (const auto& [path, work] : routes) {
    router.add("POST", path, [&context, w = work](net::Exchange& x) { return run(context, x, w); });
  }
}

}  // namespace roost::api
