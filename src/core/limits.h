// Named limits that are not settings (those are in the configuration table, with their ranges). Both are listed at
// /config.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace roost::limits {

inline constexpr std::size_t kJsonDepth = 64;
inline constexpr std::size_t kHttpHeadBytes = 16 * 1024;
inline constexpr std::size_t kHttpHeaders = 100;
inline constexpr std::size_t kHttpAnswerHeadBytes = 64 * 1024;
inline constexpr std::size_t kSseEventBytes = 8 * 1024 * 1024;
inline constexpr std::size_t kStopStrings = 16;
inline constexpr std::size_t kStopStringBytes = 256;
inline constexpr std::size_t kGrammarBytes = 256 * 1024;
inline constexpr std::size_t kToolsPerRequest = 128;
inline constexpr std::size_t kCommandQueue = 1024;          // commands waiting for the engine loop
inline constexpr std::size_t kTokenRing = 1024;             // token events of one request waiting for its client
inline constexpr std::size_t kToolOutputBytes = 64 * 1024;  // of one tool result, as the model sees it
inline constexpr std::size_t kToolCallsPerReply = 32;
inline constexpr std::size_t kGrpcMessageBytes = 16 * 1024 * 1024;
inline constexpr std::size_t kExecStreamBytes = 8 * 1024 * 1024;
inline constexpr std::size_t kRefusalRing = 10'000;

struct Limit {
  std::string_view name;
  std::size_t value;
  std::string_view help;
};

inline constexpr std::array kAll{
    Limit{"json_depth", kJsonDepth, "nesting of a JSON body"},
    Limit{"http_head_bytes", kHttpHeadBytes, "request line and headers"},
    Limit{"http_headers", kHttpHeaders, "header lines of a request"},
    Limit{"http_answer_head_bytes", kHttpAnswerHeadBytes, "status line and headers of an answer, as a client"},
    Limit{"sse_event_bytes", kSseEventBytes, "one server-sent event, as a client; a larger one is dropped"},
    Limit{"stop_strings", kStopStrings, "stop strings of a request"},
    Limit{"stop_string_bytes", kStopStringBytes, "one stop string"},
    Limit{"grammar_bytes", kGrammarBytes, "a grammar or the schema it is made from"},
    Limit{"tools_per_request", kToolsPerRequest, "tool definitions of a request"},
    Limit{"command_queue", kCommandQueue, "commands waiting for the engine loop; more are refused"},
    Limit{"token_ring", kTokenRing, "token events of one request waiting for its client; then the session pauses"},
    Limit{"tool_output_bytes", kToolOutputBytes, "one tool result as the model sees it"},
    Limit{"tool_calls_per_reply", kToolCallsPerReply, "tool calls of one model reply"},
    Limit{"grpc_message_bytes", kGrpcMessageBytes, "one message between worker, relay and sandbox"},
    Limit{"exec_stream_bytes", kExecStreamBytes, "output of one command, per stream"},
    Limit{"refusal_ring", kRefusalRing, "429 records kept by the supervisor"},
};

}  // namespace roost::limits
