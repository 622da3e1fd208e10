// RelayHub: which sandboxes are attached, and which calls run on them. It pairs each call with a wire id of its own, so
// that two clients that use the same request id never mix, and tells every party how its call ended.
//
// Invariants: a sandbox id has at most one link; a call is in `calls` of its sandbox from exec() until its finish() or
// drop_call(), which happen once.
// All methods run on one executor; nothing here knows gRPC.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/clock.h"
#include "core/result.h"
#include "sandbox/wire.h"

namespace roost::sandbox {

// A sandbox's stream, as the hub sees it.
class SandboxLink {
 public:
  virtual ~SandboxLink() = default;
  // False when its queue is full; the frame was not taken.
  virtual bool offer(wire::ServerFrame frame) = 0;
  // For aborts: always taken.
  virtual void force(wire::ServerFrame frame) = 0;
  // Ends the stream because the sandbox is silent or the relay stops.
  virtual void close(std::string reason) = 0;
};

// A client's Exec call, as the hub sees it. The hub drops the call before it calls finish or fail.
class ExecCall {
 public:
  enum class Refusal { no_such_sandbox, busy, too_large, worker_gone, slow_reader };

  virtual ~ExecCall() = default;
  virtual std::uint64_t client_req_id() const = 0;
  virtual std::string_view peer() const = 0;
  // False when the client reads too slowly and its queue is full.
  virtual bool chunk(wire::Chunk chunk) = 0;
  virtual void end(wire::End end) = 0;
  virtual void error(wire::ExecError error) = 0;
  virtual void refuse(Refusal why, std::string message) = 0;
};

// What the world outside learns about attached sandboxes.
struct AttachedSandbox {
  wire::Hello hello;
  std::int64_t epoch = 0;  // grows with each attach
};

class RelayHub {
 public:
  // `on_present`: attached or refreshed by a heartbeat. `on_gone`: detached.
  struct Observer {
    std::function<void(const AttachedSandbox&)> on_present;
    std::function<void(const AttachedSandbox&)> on_gone;
  };

  RelayHub(const Clock& clock, Observer observer);

  // Error: invalid_request (a bad id), subject_conflict when the id has a live stream.
  Result<void> attach(const std::shared_ptr<SandboxLink>& link, const wire::Hello& hello);
  // The stream is gone: its calls fail. Nothing happens for a link that is not attached.
  void detach(const SandboxLink* link);
  // A frame from an attached link, other than its first Hello.
  void frame(const SandboxLink* link, wire::WorkerFrame frame);

  void exec(const std::shared_ptr<ExecCall>& call, const std::string& sandbox_id, wire::Exec exec);
  // The client is gone: the command is aborted and the call forgotten.
  void drop_call(const ExecCall* call);
  // not_found: no such call. invalid_request: several clients use the id and none of them is the asking peer.
  Result<void> abort(const std::string& sandbox_id, std::uint64_t client_req_id, std::string_view peer);

  // Closes the streams that were silent for longer than the expiry.
  void close_silent();
  void close_all(const std::string& reason);
  std::vector<AttachedSandbox> attached() const;
  std::size_t calls_in_flight() const;

 private:
  struct Entry {
    std::shared_ptr<SandboxLink> link;
    AttachedSandbox sandbox;
    TimePoint last_seen;
    std::map<std::uint64_t, std::shared_ptr<ExecCall>> calls;  // by wire id
  };
  Entry* entry_of(const SandboxLink* link);
  static void send_abort(Entry& entry, std::uint64_t wire_id);
  void chunk(Entry& entry, wire::Chunk chunk);
  static std::shared_ptr<ExecCall> take(Entry& entry, std::uint64_t wire_id);

  const Clock& clock_;
  Observer observer_;
  std::map<std::string, Entry, std::less<>> entries_;
  std::uint64_t next_wire_id_;
};

}  // namespace roost::sandbox
