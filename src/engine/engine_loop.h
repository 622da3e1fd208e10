// EngineLoop: the one owner of the cache, the pools and the sessions. Commands in, one step at a time, events and views
// out. Single-threaded: everything but view() is called by the engine thread (or by a test, with fakes and a manual
// clock).
//
// A step: take commands, decide who starts, compose the batch, decode, sample and emit, account, publish. The parts are
// in loop_commands.cpp, loop_admission.cpp, loop_pools.cpp, loop_step.cpp, loop_end.cpp and loop_view.cpp.
//
// Invariants
//  1. Every request ends with exactly one terminal event, through end().
//  2. Unified cache: the cells promised to admitted sessions are free at all times, so every admitted request can
//  finish
//     whatever is pinned, and a decode never lacks room. What a request may need is promised when it is let in.
//  3. A session waits (Following) only for a session that is being prefilled or waits itself; when a leader ends, its
//     followers start or get a new leader in the same call.
//  4. At least one token of each prompt is computed, for its logits.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/clock.h"
#include "engine/commands.h"
#include "engine/composer.h"
#include "engine/cost_model.h"
#include "engine/engine_options.h"
#include "engine/model_port.h"
#include "engine/session.h"
#include "engine/tps_meter.h"
#include "kv/kv_store.h"
#include "kv/pool_tree.h"

namespace roost::engine {

struct StepOutcome {
  bool worked = false;               // false: nothing to do now
  std::optional<TimePoint> wake_at;  // when there may be, without a command
};

class EngineLoop {
 public:
  // Called (any thread) when a full ring has room again; may be empty.
  using Wake = std::function<void()>;

  EngineLoop(kv::KvPort& kv, ModelPort& model, const Clock& clock, const EngineOptions& options, Wake wake = {},
             bool use_anchor = true);
  ~EngineLoop();
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  // Takes effect now, which is between steps.
  void handle(EngineCommand command);
  StepOutcome step();
  // Ends every request with the error shutting_down and gives all cells back.
  void shut_down();
  // Answers a command that will not be handled.
  static void refuse(EngineCommand& command, const Error& error);

  // Any thread.
  EngineViewPtr view() const;

  // Empty string, or the broken invariant.
  std::string check_integrity() const;

  std::int32_t session_limit() const { return session_limit_; }
  const kv::KvStore& store() const { return kv_; }
  const kv::PoolTree& pools() const { return pools_; }

 private:
  static constexpr int kUnhealthyAfter = 3;  // failed decodes in a row

  // How a request ends.
  struct Done {
    FinishReason reason = FinishReason::stop;
    std::string truncated_reason;  // empty = not truncated
  };
  struct Born {};  // the pool is complete
  using Ending = std::variant<Done, Born, Error>;
  enum class Keep { cache, nothing };

  // What is shared with whom, decided before a session is let in.
  struct SharePlan {
    kv::SeqId source = kv::kNoSeq;
    kv::Pos length = 0;
    SessionNumber leader = 0;  // 0: resident now; else followed until `length`
    std::string reason;        // why less than the longest match
  };
  // Cells that must be free for a start, and what may not be let go of for them.
  struct Need {
    std::size_t cells = 0;
    kv::SeqId slot = kv::kNoSeq;  // its cache is cut to `keep` tokens
    kv::Pos keep = 0;
    std::set<kv::SeqId> spared;
    std::set<kv::PoolId> spared_pools;
  };
  enum class Let { in, waits_for_another, waits_for_room, ended };
  struct Batch {
    std::vector<BatchToken> tokens;
    std::vector<std::int32_t> last_index;  // of each slice's last token
  };
  // Owned cells by sequence.
  struct Owned {
    std::map<kv::SeqId, std::size_t> all;
    std::map<kv::SeqId, std::size_t>
        inherited;  // of them before the session's own suffix: left to it by a pool or a donor
  };
  struct Known {
    TimePoint last_request;
  };

  // loop_commands.cpp
  void on(Submit& c);
  void on(Cancel& c);
  void on(PoolCreate& c);
  void on(PoolFork& c);
  void on(PoolRetain& c);
  void on(PoolRelease& c);
  void on(CloseSession& c);
  void on(CheckIntegrity& c);
  std::optional<Error> refusal(const Submit& c) const;
  std::optional<Error> claim_error(const Submit& c) const;
  void remember(const std::string& session_id);

  // loop_admission.cpp
  void start_followers();
  void admit_queued();
  Let admit(Session& s);
  bool waits_for_another(const Session& s) const;
  const kv::Pool* pool_for(const Session& s, const Session* own) const;
  kv::SeqHandle take_slot(Session& s, kv::SeqId slot, kv::Pos kept);
  Session* own_cache(const Session& s);
  SharePlan plan_share(const Session& s, kv::SeqId own, kv::PoolId pool) const;
  std::optional<kv::SeqId> choose_slot(const Session& s, Session* own, const SharePlan& plan);
  void seat(Session& s, Seat seat, const SharePlan& plan);
  void take_shared(Session& s, kv::SeqId source, kv::Pos n);
  void begin_prefill(Session& s, std::string_view no_share_reason);
  Need need_of(const Session& s, kv::SeqId slot, const SharePlan& plan, const kv::Pool* pool) const;
  bool could_have_room(const Need& need) const;
  bool make_room(std::size_t cells, const std::set<kv::SeqId>& spared, const std::set<kv::PoolId>& spared_pools);
  bool never_has_room(const Session& s, const Need& need, const SharePlan& plan) const;
  bool anyone_runs() const;
  std::set<kv::SeqId> evictable(const Need& need) const;
  std::int32_t reserve_for(const Session& s) const;
  bool extend(Session& s, kv::Pos at_least);

  // loop_pools.cpp
  Result<kv::Tokens> stream_of(const PoolSource& source, Session** donor);
  void create_pool(RequestId id, kv::PoolId parent, kv::Pos branch_pos, kv::Tokens tokens, Session* donor,
                   std::string salt, const PoolOptions& options, Completion<PoolCreated> done);
  std::optional<Error> pool_error(kv::PoolId parent, kv::Pos branch_pos, const kv::Tokens& tokens,
                                  const PoolOptions& options) const;
  std::optional<kv::SeqHandle> pool_seat(kv::PoolId parent, kv::SeqId spared);
  void pool_from_donor(std::unique_ptr<Birth> birth, kv::Tokens tokens, kv::SeqHandle seq, Session& donor);
  void attach_donor(Session& donor, kv::PoolId pool);
  void finish_birth_if_complete(Session& s);
  bool within_pin_limit(kv::SeqId adding, std::size_t more) const;  // `adding` may be kNoSeq
  kv::Pool& add_pool(Birth& birth, kv::Tokens tokens, kv::SeqHandle seq, const std::string& salt);
  static PoolCreated created(const kv::Pool& pool, bool reused, std::string warning);
  void drop_pool(kv::PoolId id);
  std::int32_t drop_unused(const std::vector<kv::PoolId>& leaves_first);
  bool has_births_below(kv::PoolId id) const;

  // loop_step.cpp
  bool advance();
  Batch make_batch(const Composition& plan);
  Composition compose_step(std::int32_t prefill_cap);
  bool can_advance(Session& s);
  void after_decode(const Composition& plan, const std::vector<std::int32_t>& last_index);
  void drawn(Session& s, std::int32_t index);
  void on_no_slot(const Composition& plan);
  void on_failed(const Composition& plan);
  void expire();
  std::optional<TimePoint> next_deadline() const;

  // loop_end.cpp
  void end(Session& s, Ending ending, Keep keep = Keep::cache);
  void hand_over(Session& leader);
  void drop_idle(Session& s);
  Event last_event(const Session& s, const Ending& ending) const;

  // Answers are given after the view that shows what they tell: who has the answer sees it in the next GET.
  template <class T>
  void answer_later(Completion<T> done, Result<T> result) {
    answers_.push_back([done = std::move(done), result = std::move(result)] { done(result); });
  }
  void settle();

  // loop_view.cpp
  void publish();
  SlotView slot_view(const Session& s, const Owned& owned) const;
  std::vector<kv::Claim> claims() const;
  void fill_counts(EngineView& view) const;
  void fill_sessions(EngineView& view, const Owned& owned) const;
  void fill_pools(EngineView& view, const Owned& owned) const;

  Session* find(SessionNumber number);
  Session* at(kv::SeqId seq) const;  // who sits there, idle included
  Session* idle_of(const std::string& session_id) const;
  bool busy(const std::string& session_id) const;
  bool is_idle(kv::SeqId seq) const;
  Session& new_session(const std::string& session_id, const std::string& salt, kv::Tokens tokens);
  void each(const std::function<void(Session&)>& f);

  kv::KvStore kv_;
  kv::PoolTree pools_;
  ModelPort& model_;
  const Clock& clock_;
  const EngineOptions options_;
  const Wake wake_;
  std::int32_t session_limit_ = 0;

  std::map<SessionNumber, Session> sessions_;
  std::deque<SessionNumber> queue_;
  std::unordered_map<RequestId, SessionNumber> requests_;
  std::vector<Session*> seats_;  // by sequence id
  std::map<std::string, Known> known_;
  SessionNumber next_number_ = 1;
  std::vector<std::function<void()>> answers_;

  CostModel cost_;
  TpsMeter aggregate_;
  std::uint64_t steps_ = 0, decode_failures_ = 0, tokens_prefilled_ = 0, tokens_decoded_ = 0, tokens_cached_ = 0;
  std::uint64_t requests_total_ = 0, refused_ = 0;
  int failures_in_a_row_ = 0, no_slot_in_a_row_ = 0;
  bool changed_ = true;      // the structure, since the last view
  bool ended_some_ = false;  // in this step
  TimePoint published_at_{};

  mutable std::mutex view_mutex_;  // guards the pointer alone
  EngineViewPtr view_;
};

}  // namespace roost::engine
