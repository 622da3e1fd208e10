#include "sandbox/relay_hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/ids.h"
#include "core/limits.h"
#include "core/log.h"

namespace roost::sandbox {
namespace {

// A sandbox beats every 15 s; three missed beats and it is gone.
constexpr Duration kSilence = std::chrono::seconds(45);
constexpr std::size_t kLabels = 64;

// Not from 1: a relay that was restarted must not reuse an id that still runs on a sandbox.
std::uint64_t random_start() {
  const std::string hex = random_hex(6);
  std::uint64_t value = 1;
  std::from_chars(hex.data(), hex.data() + hex.size(), value, 16);
  return value << 12U | 1U;
}

}  // namespace

RelayHub::RelayHub(const Clock& clock, Observer observer)
    : clock_(clock), observer_(std::move(observer)), next_wire_id_(random_start()) {}

Result<void> RelayHub::attach(const std::shared_ptr<SandboxLink>& link, const wire::Hello& hello) {
  if (!is_plain_session_id(hello.sandbox_id())) {
    return {ErrorKind::invalid_request, "hello.sandbox_id: 1 to 128 letters, digits or . _ ~ -"};
  }
  if (static_cast<std::size_t>(hello.labels_size()) > kLabels ||
      static_cast<std::size_t>(hello.capabilities_size()) > kLabels) {
    return {ErrorKind::invalid_request, fmt::format("hello: at most {} labels and {} capabilities", kLabels, kLabels)};
  }
  if (entries_.contains(hello.sandbox_id())) {
    return {ErrorKind::subject_conflict, fmt::format("sandbox '{}' has a live stream already", hello.sandbox_id())};
  }
  Entry entry{link, {hello, static_cast<std::int64_t>(clock_.unix_seconds() * 1e3)}, clock_.now(), {}};
  const auto& stored = entries_.emplace(hello.sandbox_id(), std::move(entry)).first->second;
  log::info("sandbox attached", {{"sandbox", hello.sandbox_id()}, {"capacity", hello.capacity_max()}});
  if (observer_.on_present) observer_.on_present(stored.sandbox);
  return {};
}

void RelayHub::detach(const SandboxLink* link) {
  Entry* entry = entry_of(link);
  if (entry == nullptr) return;
  Entry gone = std::move(*entry);
  entries_.erase(gone.sandbox.hello.sandbox_id());
  log::info("sandbox detached", {{"sandbox", gone.sandbox.hello.sandbox_id()}, {"calls_failed", gone.calls.size()}});
  for (const auto& [id, call] : gone.calls) call->refuse(ExecCall::Refusal::worker_gone, "worker disconnected");
  if (observer_.on_gone) observer_.on_gone(gone.sandbox);
}

void RelayHub::frame(const SandboxLink* link, wire::WorkerFrame frame) {
  Entry* entry = entry_of(link);
  if (entry == nullptr) return;
  entry->last_seen = clock_.now();
  switch (frame.frame_case()) {
    case wire::WorkerFrame::kHeartbeat:
      if (observer_.on_present) observer_.on_present(entry->sandbox);
      break;
    case wire::WorkerFrame::kChunk:
      chunk(*entry, std::move(*frame.mutable_chunk()));
      break;
    case wire::WorkerFrame::kEnd:
      if (const auto call = take(*entry, frame.end().req_id())) {
        frame.mutable_end()->set_req_id(call->client_req_id());
        call->end(frame.end());
      }
      break;
    case wire::WorkerFrame::kError:
      if (const auto call = take(*entry, frame.error().req_id())) {
        frame.mutable_error()->set_req_id(call->client_req_id());
        call->error(frame.error());
      }
      break;
    default:
      break;  // A repeated Hello, or a frame of a newer contract.
  }
}

void RelayHub::chunk(Entry& entry, wire::Chunk chunk) {
  const auto found = entry.calls.find(chunk.req_id());
  if (found == entry.calls.end()) return;
  const std::uint64_t wire_id = chunk.req_id();
  chunk.set_req_id(found->second->client_req_id());
  if (found->second->chunk(std::move(chunk))) return;
  // Losing a piece in the middle would be a lie about the output: the call ends instead.
  const auto call = take(entry, wire_id);
  send_abort(entry, wire_id);
  call->refuse(ExecCall::Refusal::slow_reader, "the client reads slower than the command writes");
}

void RelayHub::exec(const std::shared_ptr<ExecCall>& call, const std::string& sandbox_id, wire::Exec exec) {
  const auto found = entries_.find(sandbox_id);
  if (found == entries_.end()) {
    return call->refuse(ExecCall::Refusal::no_such_sandbox, fmt::format("no sandbox '{}' is attached", sandbox_id));
  }
  Entry& entry = found->second;
  const std::uint64_t wire_id = next_wire_id_++;
  exec.set_req_id(wire_id);
  wire::ServerFrame frame;
  *frame.mutable_exec() = std::move(exec);
  // A larger one would break the sandbox's stream, and with it everybody's calls.
  if (frame.ByteSizeLong() > limits::kGrpcMessageBytes) {
    return call->refuse(ExecCall::Refusal::too_large,
                        fmt::format("command and stdin take more than {} bytes", limits::kGrpcMessageBytes));
  }
  if (!entry.link->offer(std::move(frame))) {
    return call->refuse(ExecCall::Refusal::busy, fmt::format("busy: the stream to sandbox '{}' is full", sandbox_id));
  }
  entry.calls.emplace(wire_id, call);
}

void RelayHub::drop_call(const ExecCall* call) {
  for (auto& [id, entry] : entries_) {
    const auto found =
        std::find_if(entry.calls.begin(), entry.calls.end(), [&](const auto& c) { return c.second.get() == call; });
    if (found == entry.calls.end()) continue;
    send_abort(entry, found->first);
    entry.calls.erase(found);
    return;
  }
}

Result<void> RelayHub::abort(const std::string& sandbox_id, std::uint64_t client_req_id, std::string_view peer) {
  const auto found = entries_.find(sandbox_id);
  if (found == entries_.end()) return {ErrorKind::not_found, fmt::format("no sandbox '{}' is attached", sandbox_id)};
  std::vector<std::uint64_t> all;
  std::vector<std::uint64_t> of_peer;
  for (const auto& [wire_id, call] : found->second.calls) {
    if (call->client_req_id() != client_req_id) continue;
    all.push_back(wire_id);
    if (call->peer() == peer) of_peer.push_back(wire_id);
  }
  if (all.empty())
    return {ErrorKind::not_found, fmt::format("no call {} runs on sandbox '{}'", client_req_id, sandbox_id)};
  if (all.size() > 1 && of_peer.size() != 1) {
    return {ErrorKind::invalid_request,
            fmt::format("req_id {} is used by {} calls; abort over the connection of the call, or cancel it",
                        client_req_id, all.size())};
  }
  send_abort(found->second, of_peer.empty() ? all.front() : of_peer.front());
  return {};
}

void RelayHub::close_silent() {
  for (auto& [id, entry] : entries_) {
    if (clock_.now() - entry.last_seen > kSilence) entry.link->close("no heartbeat for 45 s");
  }
}

void RelayHub::close_all(const std::string& reason) {
  for (auto& [id, entry] : entries_) entry.link->close(reason);
}

std::vector<AttachedSandbox> RelayHub::attached() const {
  std::vector<AttachedSandbox> all;
  for (const auto& [id, entry] : entries_) all.push_back(entry.sandbox);
  return all;
}

std::size_t RelayHub::calls_in_flight() const {
  std::size_t count = 0;
  for (const auto& [id, entry] : entries_) count += entry.calls.size();
  return count;
}

RelayHub::Entry* RelayHub::entry_of(const SandboxLink* link) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const auto& e) { return e.second.link.get() == link; });
  return found == entries_.end() ? nullptr : &found->second;
}

void RelayHub::send_abort(Entry& entry, std::uint64_t wire_id) {
  wire::ServerFrame frame;
  frame.mutable_abort()->set_req_id(wire_id);
  entry.link->force(std::move(frame));
}

std::shared_ptr<ExecCall> RelayHub::take(Entry& entry, std::uint64_t wire_id) {
  const auto found = entry.calls.find(wire_id);
  if (found == entry.calls.end()) return nullptr;
  auto call = std::move(found->second);
  entry.calls.erase(found);
  return call;
}

}  // namespace roost::sandbox
