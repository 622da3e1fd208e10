// The relay's SandboxWorker service: one AttachStream per sandbox that dials in.
#pragma once

#include <memory>

#include "sandbox/relay_context.h"
#include "sandbox/v1/sandbox.grpc.pb.h"

namespace roost::sandbox {

class AttachService final : public wire::SandboxWorker::CallbackService {
 public:
  explicit AttachService(RelayContext& context) : context_(context) {}
  grpc::ServerBidiReactor<wire::WorkerFrame, wire::ServerFrame>* Attach(grpc::CallbackServerContext* call) override;

 private:
  RelayContext& context_;
};

}  // namespace roost::sandbox
