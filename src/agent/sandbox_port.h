// What a turn needs of the sandboxes: a place on one of them, and commands run there. The turn loop and the tools know
// only this; sandbox_pool.h is the real one.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>

#include "core/abort.h"
#include "core/result.h"
#include "sandbox/exec_client.h"

namespace roost::agent {

namespace asio = boost::asio;

// A turn's lease on one sandbox. Given back by release(), or in the background by the destructor.
class SandboxSeat {
 public:
  virtual ~SandboxSeat() = default;
  virtual const std::string& sandbox_id() const = 0;
  // As sandbox::ExecClient::exec; spec.sandbox_id is filled in.
  virtual asio::awaitable<Result<sandbox::ExecOutcome>> exec(sandbox::ExecSpec spec, AbortSource* abort) = 0;
  virtual asio::awaitable<void> release() = 0;
};

class SandboxPort {
 public:
  virtual ~SandboxPort() = default;
  // A place for `holder` (unique per turn): on `preferred` when it is alive and has room, else on the least loaded one.
  // Errors: sandbox_saturated (none has room), pool_empty (none is present; the message names the source of discovery),
  // redis_unavailable.
  virtual asio::awaitable<Result<std::unique_ptr<SandboxSeat>>> take(std::string holder, std::string preferred) = 0;
};

}  // namespace roost::agent
