// The turns in flight in this worker: how one is found and ended from outside. A cancel for a turn of another worker
// goes through Redis: `session:<sid>:cancel` holds the turn's id; every worker that has turns looks for its own twice a
// second, one MGET for all of them.
//
// Used from one executor.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "core/abort.h"
#include "core/result.h"
#include "store/redis.h"

namespace roost::agent {

namespace asio = boost::asio;

class TurnRegistry {
 public:
  TurnRegistry(asio::any_io_executor executor, std::shared_ptr<store::Redis> redis);
  ~TurnRegistry();
  TurnRegistry(const TurnRegistry&) = delete;

  // One turn's membership; ends in its destructor. Must not outlive the registry.
  class Entry {
   public:
    Entry(TurnRegistry& registry, std::string session_id, std::string turn_id);
    ~Entry();
    Entry(const Entry&) = delete;
    AbortSource& abort() { return abort_; }
    const std::string& turn_id() const { return turn_id_; }

   private:
    friend class TurnRegistry;
    TurnRegistry& registry_;
    std::string session_id_;
    std::string turn_id_;
    AbortSource abort_;
    std::list<Entry*>::iterator at_;
  };

  std::size_t count() const;
  // Ends every turn.
  void abort_all(const std::string& reason);

  // Ends the session's turn (`turn_id` empty = whichever runs), wherever it runs: here at once, elsewhere by a mark
  // that its worker finds. The id of the turn. turn_not_found when the session has no such turn in flight.
  asio::awaitable<Result<std::string>> cancel(std::string session_id, std::string turn_id);

 private:
  struct State;
  static asio::awaitable<void> look_for_cancels(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace roost::agent
