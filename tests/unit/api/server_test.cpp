// The whole server on the engine's fakes: routes, streams, pools, refusals. No model.
#include <gtest/gtest.h>

#include "server_fixture.h"

namespace roost::api {
namespace {

using Fixture = ServerFixture;

const std::string kPrompt(60, 'p');

std::string chat(const std::string& members, const std::string& content = "hello") {
  return R"({"messages":[{"role":"user","content":")" + content + R"("}],"max_tokens":8)" + members + "}";
}

TEST(Server, AStreamSaysWhatTheWholeAnswerSays) {
  Fixture f({.auto_share = false});
  const json::object whole = f.json_call("POST", "/v1/chat/completions", chat(""));
  const net::Response streamed =
      f.call("POST", "/v1/chat/completions", chat(R"(,"stream":true,"stream_options":{"include_usage":true})"));
  EXPECT_EQ(streamed.status, 200);
  EXPECT_TRUE(streamed.headers.get("Content-Type").starts_with("text/event-stream"));
  std::string content;
  const auto events = events_of(streamed);
  ASSERT_GE(events.size(), 4U);
  for (const auto& event : events) {
    if (event.data == "[DONE]") continue;
    const json::object chunk = json::parse(event.data).as_object();
    for (const auto& choice : chunk.at("choices").as_array()) {
      const auto* text = choice.at("delta").as_object().if_contains("content");
      if (text != nullptr && text->is_string()) content += std::string(text->as_string());
    }
  }
  EXPECT_EQ(content, std::string(whole.at("choices").at(0).at("message").at("content").as_string()));
  EXPECT_EQ(events.back().data, "[DONE]");
  const json::object usage = json::parse(events[events.size() - 2].data).as_object();
  EXPECT_EQ(usage.at("usage").at("completion_tokens").to_number<int>(), 8);
  EXPECT_TRUE(usage.contains("timings"));
  EXPECT_TRUE(usage.contains("opencoti"));
}

TEST(Server, EveryAnswerCarriesTheBootId) {
  Fixture f;
  EXPECT_EQ(f.call("GET", "/health").headers.get("X-OpenCoti-Boot-Id"), "boot1");
  EXPECT_EQ(f.call("GET", "/nowhere").headers.get("X-OpenCoti-Boot-Id"), "boot1");
  EXPECT_EQ(f.call("POST", "/completion", R"({"prompt":"x","n_predict":1})").headers.get("X-OpenCoti-Boot-Id"),
            "boot1");
}

TEST(Server, ASessionAttachedToAPoolSharesAllOfIt) {
  Fixture f;
  const json::object pool = f.json_call("POST", "/polykv/pools", R"({"prompt":")" + kPrompt + "\"}");
  EXPECT_EQ(pool.at("prefix_len").to_number<int>(), 60);
  const auto id = pool.at("pool_id").to_number<int>();
  const net::Response response =
      f.call("POST", "/completion",
             R"({"prompt":")" + kPrompt + R"(tail","n_predict":3,"pool_id":)" + std::to_string(id) + "}");
  const json::object body = json::parse(response.body).as_object();
  EXPECT_EQ(body.at("opencoti").at("n_pool_shared").to_number<int>(), 60);
  EXPECT_EQ(body.at("opencoti").at("pool_match").as_string(), "full");
  EXPECT_EQ(body.at("timings").at("prompt_n").to_number<int>(), 4);
  EXPECT_EQ(response.headers.get("x-pool-id"), std::to_string(id));
  EXPECT_EQ(response.headers.get("x-cached-prefix-tokens"), "60");
  EXPECT_FALSE(response.headers.get("x-session-tps").empty());

  const json::object list = f.json_call("GET", "/polykv/pools/" + std::to_string(id) + "?tokens=1");
  EXPECT_EQ(list.at("pools").at(0).at("tokens").as_array().size(), 60U);
  EXPECT_TRUE(f.json_call("GET", "/debug/integrity").at("ok").as_bool());
}

TEST(Server, APoolFromMessagesIsAPrefixOfEveryConversationThatBeginsSo) {
  Fixture f;
  const json::object pool =
      f.json_call("POST", "/polykv/pools", R"({"messages":[{"role":"system","content":"be brief and kind to all"}]})");
  const std::string prefix = "<|system|>be brief and kind to all<|user|>";
  EXPECT_EQ(pool.at("prefix_len").to_number<std::size_t>(), prefix.size());
  const json::object answer = f.json_call(
      "POST", "/v1/chat/completions",
      R"({"messages":[{"role":"system","content":"be brief and kind to all"},{"role":"user","content":"hi"}],"max_tokens":2,"pool_id":)" +
          std::to_string(pool.at("pool_id").to_number<int>()) + "}");
  EXPECT_EQ(answer.at("opencoti").at("pool_match").as_string(), "full");
}

TEST(Server, AnUnknownPoolIsServedUnlessItMustExist) {
  Fixture f;
  const json::object served = f.json_call("POST", "/completion", R"({"prompt":"abc","n_predict":2,"pool_id":77})");
  EXPECT_TRUE(served.at("opencoti").at("pool_unknown").as_bool());
  const json::object refused =
      f.json_call("POST", "/completion", R"({"prompt":"abc","n_predict":2,"pool_id":77,"pool_strict":true})", 404);
  EXPECT_EQ(refused.at("error").at("error_kind").as_string(), "unknown_pool");
  f.json_call("POST", "/completion", R"({"prompt":"abc","pool_id":"77"})", 400);
}

TEST(Server, WherePromptAndPoolPartIsTold) {
  Fixture f;
  const json::object pool =
      f.json_call("POST", "/polykv/pools", R"({"prompt":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"})");
  const json::object answer =
      f.json_call("POST", "/completion",
                  R"({"prompt":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac","n_predict":1,"pool_id":)" +
                      std::to_string(pool.at("pool_id").to_number<int>()) + "}");
  const json::object& where = answer.at("opencoti").at("first_divergence").as_object();
  EXPECT_EQ(where.at("index").to_number<int>(), 41);
  EXPECT_EQ(where.at("pool_token_text").as_string(), "b");
  EXPECT_EQ(where.at("prompt_token_text").as_string(), "c");
}

TEST(Server, PoolsAreReleasedOnceAndTwice) {
  Fixture f;
  const json::object pool = f.json_call("POST", "/polykv/pools", R"({"prompt":")" + kPrompt + "\"}");
  const std::string path = "/polykv/pools/" + std::to_string(pool.at("pool_id").to_number<int>());
  f.json_call("POST", path + "/pin");
  EXPECT_TRUE(f.json_call("GET", path).at("pools").at(0).at("pinned").as_bool());
  f.json_call("POST", path + "/unpin", "{}");
  const json::object released = f.json_call("DELETE", path);
  EXPECT_TRUE(released.at("found").as_bool());
  EXPECT_EQ(released.at("cells_freed").to_number<int>(), 60);
  EXPECT_FALSE(f.json_call("POST", path + "/release").at("found").as_bool());
  f.json_call("GET", path, "", 404);
  f.json_call("POST", path + "/pin", "", 404);
  f.json_call("POST", "/polykv/pools/x/pin", "", 400);
}

TEST(Server, AParentWithChildrenIsReleasedOnlyWithThem) {
  Fixture f;
  const json::object root = f.json_call("POST", "/polykv/pools", R"({"prompt":")" + kPrompt + "\"}");
  const std::string path = "/polykv/pools/" + std::to_string(root.at("pool_id").to_number<int>());
  const json::object child = f.json_call("POST", path + "/fork", R"({"suffix":"and more"})");
  EXPECT_EQ(child.at("prefix_len").to_number<int>(), 68);
  EXPECT_EQ(child.at("own_len").to_number<int>(), 8);
  EXPECT_EQ(f.json_call("POST", path + "/fork", R"({"prompt":"other"})", 409).at("error").at("error_kind").as_string(),
            "prefix_mismatch");
  EXPECT_EQ(f.json_call("POST", path + "/release", "", 409).at("error").at("error_kind").as_string(),
            "pool_has_children");
  EXPECT_EQ(f.json_call("POST", path + "/release", R"({"recursive":true})").at("pools_released").to_number<int>(), 2);
}

TEST(Server, WithPoolsOffTheirRoutesSayso) {
  Fixture f({.max_pools = 0});
  EXPECT_EQ(f.json_call("GET", "/polykv/pools", "", 501).at("error").at("error_kind").as_string(), "pools_off");
  f.json_call("POST", "/polykv/pools", R"({"prompt":"x"})", 501);
  f.json_call("POST", "/completion", R"({"prompt":"x","pool_id":1})", 501);
  EXPECT_FALSE(f.json_call("GET", "/props").at("opencoti").at("polykv").at("pools_enabled").as_bool());
}

TEST(Server, SessionsCloseByPathAndByBody) {
  Fixture f;
  f.json_call("POST", "/completion", R"({"prompt":"abcdef","n_predict":2,"session_id":"s 1/ä"})");
  const json::object closed = f.json_call("POST", "/sessions/close", R"({"session_id":"s 1/ä"})");
  EXPECT_TRUE(closed.at("found").as_bool());
  EXPECT_GT(closed.at("kv_dropped").to_number<int>(), 0);
  EXPECT_FALSE(f.json_call("POST", "/sessions/s1/close").at("found").as_bool());
  f.json_call("DELETE", "/sessions/s1");
  f.json_call("POST", "/sessions/a%20b/close", "", 400);
  f.json_call("POST", "/sessions/close", "{}", 400);
}

TEST(Server, AClientThatLeavesFreesItsSlot) {
  Fixture f;
  asio::io_context client_io;
  net::HttpClient client(client_io.get_executor(),
                         *net::parse_url("http://127.0.0.1:" + std::to_string(f.server.port())), {});
  net::ClientRequest request{"POST", "/completion", {}, R"({"prompt":"abc","stream":true,"n_predict":100000})"};
  bool read = false;
  auto read_one = [&]() -> asio::awaitable<void> {
    auto stream = co_await client.open(request);
    if (!stream) co_return;
    const auto piece = co_await stream->next();
    read = piece.ok();
  };
  asio::co_spawn(client_io, read_one(), asio::detached);
  client_io.run_for(kDeadline);
  EXPECT_TRUE(read);
  EXPECT_TRUE(f.eventually([](const engine::EngineView& v) {
    return v.requests_total > 0 && v.n_decoding == 0 && v.n_prefilling == 0 && v.n_queued == 0;
  }));
}

TEST(Server, AKeepaliveOpensTheStreamAtOnceAndNamesThePhase) {
  Fixture f;
  const net::Response response =
      f.call("POST", "/v1/chat/completions", chat(R"(,"stream":true,"stream_options":{"keepalive":true})"));
  EXPECT_TRUE(response.body.starts_with(": keepalive queued\n\n")) << response.body.substr(0, 80);
  EXPECT_EQ(events_of(response).back().data, "[DONE]");
}

TEST(Server, AnErrorAfterOpeningIsADataFrame) {
  Fixture f;
  f.model.before_decode = [](auto) { return engine::DecodeStatus::failed; };
  const net::Response late =
      f.call("POST", "/v1/chat/completions", chat(R"(,"stream":true,"stream_options":{"keepalive":true})"));
  EXPECT_EQ(late.status, 200);
  const auto events = events_of(late);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(json::parse(events.back().data).at("error").at("code").to_number<int>(), 500);
  const net::Response early = f.call("POST", "/v1/chat/completions", chat(R"(,"stream":true)"));
  EXPECT_EQ(early.status, 500);
}

TEST(Server, AStopStringEndsTheText) {
  Fixture f({.auto_share = false});
  const json::object whole = f.json_call("POST", "/completion", R"({"prompt":"qqq","n_predict":40})");
  const std::string text(whole.at("content").as_string());
  const std::size_t at = text.find('w', 1);
  ASSERT_NE(at, std::string::npos);
  const std::string stop = text.substr(at, 3);
  const json::object cut = f.json_call(
      "POST", "/completion", json::serialize(json::object{{"prompt", "qqq"}, {"n_predict", 40}, {"stop", stop}}));
  EXPECT_EQ(cut.at("content").as_string(), text.substr(0, text.find(stop)));
  EXPECT_EQ(cut.at("stop_type").as_string(), "word");
  EXPECT_EQ(cut.at("stopping_word").as_string(), stop);
}

TEST(Server, BadInputIsA4xxAndTheServerGoesOn) {
  Fixture f;
  const auto status = [&](const std::string& path, const std::string& body) {
    return f.call("POST", path, body).status;
  };
  EXPECT_EQ(status("/v1/chat/completions", "{"), 400);
  EXPECT_EQ(status("/v1/chat/completions", "[]"), 400);
  EXPECT_EQ(status("/v1/chat/completions", std::string(10'000, '[')), 400);
  EXPECT_EQ(status("/v1/chat/completions", R"({"messages":[{"role":"refused","content":"x"}]})"), 400);
  EXPECT_EQ(status("/completion", R"({"prompt":[-1]})"), 400);
  EXPECT_EQ(status("/completion", R"({"prompt":"x","grammar":"bad"})"), 400);
  EXPECT_EQ(status("/completion", R"({"prompt":")" + std::string(100'000, 'x') + "\"}"), 400);
  EXPECT_EQ(status("/completion", std::string(2 << 20, ' ')), 413);
  EXPECT_EQ(status("/v1/messages", "{}"), 501);
  EXPECT_EQ(f.call("DELETE", "/completion").status, 405);
  EXPECT_EQ(f.call("GET", "/health").status, 200);
}

TEST(Server, TextRoutesAgreeWithTheChatRoute) {
  Fixture f;
  const std::string messages = R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":1})";
  const json::object rendered = f.json_call("POST", "/apply-template", messages);
  EXPECT_EQ(rendered.at("prompt").as_string(), "<|user|>hi<|assistant|>");
  const json::object tokens =
      f.json_call("POST", "/tokenize", json::serialize(json::object{{"content", rendered.at("prompt")}}));
  const json::object chat_answer = f.json_call("POST", "/v1/chat/completions", messages);
  EXPECT_EQ(tokens.at("tokens").as_array().size(),
            chat_answer.at("usage").at("prompt_tokens").to_number<std::size_t>());
  const json::object back = f.json_call("POST", "/detokenize", json::serialize(tokens));
  EXPECT_EQ(back.at("content"), rendered.at("prompt"));
  f.json_call("POST", "/tokenize", "{}", 400);
  f.json_call("POST", "/detokenize", R"({"tokens":[1000]})", 400);
}

TEST(Server, StatusRoutesAnswerFromTheView) {
  Fixture f;
  f.json_call("POST", "/polykv/pools", R"({"prompt":")" + kPrompt + "\"}");
  EXPECT_EQ(f.json_call("GET", "/health").at("status").as_string(), "ok");
  EXPECT_EQ(f.json_call("GET", "/v1/models").at("data").at(0).at("id").as_string(), "fake");
  EXPECT_TRUE(f.json_call("GET", "/props").at("features").is_array());
  const json::object kv = f.json_call("GET", "/kv");
  EXPECT_EQ(kv.at("cells_total").to_number<int>(),
            kv.at("cells_used").to_number<int>() + kv.at("cells_free").to_number<int>());
  EXPECT_EQ(json::parse(f.call("GET", "/slots").body).as_array().size(), 8U);
  const json::object tps = f.json_call("GET", "/polykv/tps?once=1");
  for (const auto* name :
       {"ts", "aggregate_tps", "mean_active_tps", "n_warming", "n_prefilling", "prefill_backlog_tokens", "sessions"}) {
    EXPECT_TRUE(tps.contains(name)) << name;
  }
  f.json_call("GET", "/polykv/tps?interval_ms=1", "", 400);
  const std::string metrics = f.call("GET", "/metrics").body;
  EXPECT_NE(metrics.find("opencoti_polykv:pool_kv_bytes{pool=\"0\"} 960\n"), std::string::npos) << metrics;
  EXPECT_TRUE(f.json_call("GET", "/config").at("limits").as_object().contains("json_depth"));
}

TEST(Server, WithAKeyOnlyHealthIsOpen) {
  Fixture f({}, {{"engine.api_key", "secret"}});
  EXPECT_EQ(f.call("GET", "/slots").status, 401);
  EXPECT_EQ(f.call("POST", "/completion", "{").status, 401) << "refused before the body is read";
  EXPECT_EQ(f.call("GET", "/health").status, 200);
  EXPECT_EQ(f.call("GET", "/slots", "", {{"Authorization", "Bearer secret"}}).status, 200);
  EXPECT_EQ(f.call("GET", "/config", "", {{"X-Api-Key", "secret"}}).body.find("secret\""), std::string::npos);
}

TEST(Server, ShutdownIsAskedForOnce) {
  Fixture f;
  f.json_call("POST", "/shutdown");
  // The answer goes out first.
  EXPECT_TRUE(f.eventually([&](const auto&) { return f.shutdowns == 1; }));
}

}  // namespace
}  // namespace roost::api
