// The engine as the rest of the process sees it: commands in, events and views out. See engine_loop.h for what happens
// inside.
//
//   Engine engine(kv_port, model_port, clock, options);
//   std::thread thread([&] { engine.run(); });      // the engine thread; owns the ports until run() returns
//   if (!engine.post(Submit{...})) answer(429, server_full);
//   render(*engine.view());
//   engine.stop(); thread.join();
#pragma once

#include <memory>

#include "core/clock.h"
#include "engine/commands.h"
#include "engine/engine_options.h"
#include "engine/model_port.h"
#include "engine/view.h"
#include "kv/kv_port.h"

namespace roost::engine {

class CommandQueue;
class EngineLoop;

class Engine {
 public:
  // The ports and the clock must outlive the engine. The options must fit the cache (ROOST_CHECK): parallel >= 1,
  // sequences_needed() <= KvTraits::n_seq, batch >= 1.
  Engine(kv::KvPort& kv, ModelPort& model, const Clock& clock, EngineOptions options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Any thread, never waits. False: the queue is full (429 server_full) or the engine has stopped (503 shutting_down,
  // see stopped()); the command is dropped then and its completion never called. True: its completion or terminal event
  // will come, at stop() with the error shutting_down.
  [[nodiscard]] bool post(EngineCommand command);

  // Any thread, never waits for a step. Never null.
  EngineViewPtr view() const;

  // The engine thread's body: returns after stop(), when every open request has got its terminal event.
  void run();
  // Any thread, any number of times.
  void stop();
  bool stopped() const;

  const EngineOptions& options() const { return options_; }
  // Tokens that one session may hold, prompt and answer together.
  std::int32_t session_limit() const { return session_limit_; }

 private:
  const EngineOptions options_;
  const Clock& clock_;
  std::shared_ptr<CommandQueue>
      queue_;  // shared with the EventRings' `drained` callbacks, which may outlive the engine
  std::unique_ptr<EngineLoop> loop_;
  std::int32_t session_limit_ = 0;
};

}  // namespace roost::engine
