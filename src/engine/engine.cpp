#include "engine/engine.h"

#include <utility>

#include "engine/command_queue.h"
#include "engine/engine_loop.h"

namespace roost::engine {

Engine::Engine(kv::KvPort& kv, ModelPort& model, const Clock& clock, EngineOptions options)
    : options_(options),
      clock_(clock),
      queue_(std::make_shared<CommandQueue>(options.command_queue)),
      loop_(std::make_unique<EngineLoop>(kv, model, clock, options, [queue = queue_] { queue->wake(); })),
      session_limit_(loop_->session_limit()) {}

Engine::~Engine() { stop(); }

bool Engine::post(EngineCommand command) { return queue_->push(std::move(command)); }

EngineViewPtr Engine::view() const { return loop_->view(); }

void Engine::run() {
  while (!queue_->closed()) {
    for (auto& command : queue_->take()) loop_->handle(std::move(command));
    const StepOutcome outcome = loop_->step();
    if (outcome.worked) continue;
    std::optional<Duration> timeout;
    if (outcome.wake_at) timeout = *outcome.wake_at - clock_.now();
    queue_->wait(timeout);
  }
  const Error error{ErrorKind::shutting_down, "the engine is shutting down", {}, {}};
  for (auto& command : queue_->take()) EngineLoop::refuse(command, error);
  loop_->shut_down();
}

void Engine::stop() { queue_->close(); }
bool Engine::stopped() const { return queue_->closed(); }

}  // namespace roost::engine
