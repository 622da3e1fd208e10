// The relay's SandboxExec service: one ExecStream per running command of a client.
#pragma once

#include "sandbox/relay_context.h"
#include "sandbox/v1/sandbox.grpc.pb.h"

namespace roost::sandbox {

class ExecService final : public wire::SandboxExec::CallbackService {
 public:
  explicit ExecService(RelayContext& context) : context_(context) {}
  grpc::ServerWriteReactor<wire::ExecEvent>* Exec(grpc::CallbackServerContext* call,
                                                  const wire::ExecRequest* request) override;
  grpc::ServerUnaryReactor* Abort(grpc::CallbackServerContext* call, const wire::AbortRequest* request,
                                  wire::AbortResponse* response) override;

 private:
  RelayContext& context_;
};

}  // namespace roost::sandbox
