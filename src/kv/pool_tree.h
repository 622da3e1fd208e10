// PoolTree: the pools, how they hang together, who uses them and which may go. Bookkeeping only: cells are KvStore's.
//
// A pool is immutable: [0, L) tokens, of which it computed [D, L) itself (D = branch_pos) and inherited [0, D) from its
// parent. Three edges, one mechanism: root (no parent, D = 0), extend (D = parent's L), branch (D < parent's L).
//
// Invariants (check_integrity()):
//  1. 0 <= D < L; a root has D = 0; a child's tokens and hashes equal its parent's over [0, D), and D <= parent's L.
//  2. child links and parent links agree; a pool with children is never removed.
//  3. a slot is attached to at most one pool.
// A pool goes only when nothing needs it: never with children or attached sessions, except by an explicit release,
// which detaches its sessions (they keep their cells). Engine thread only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/clock.h"
#include "kv/seq_ids.h"
#include "kv/types.h"

namespace roost::kv {

// A grace beyond this many seconds is a pin in all but name.
inline constexpr double kForeverS = 1e8;

struct Retention {
  bool pinned = false;
  bool ephemeral = false;  // goes with its last user, without grace
  double ttl_s = 60;       // grace after the last use
  std::string owner{};     // session id; empty = unowned
};

struct Pool {
  PoolId id = kNoPool;
  PoolId parent = kNoPool;
  Pos branch_pos = 0;
  std::shared_ptr<const Tokens> tokens;  // [0, L)
  std::vector<std::uint64_t> hashes;     // cumulative, one per position
  SeqHandle seq;
  std::string salt;
  Retention keep;
  double created_ts = 0, last_access_ts = 0;  // unix seconds
  TimePoint last_access{};
  std::set<PoolId> children;
  std::set<SeqId> sessions;  // attached slots
  std::uint64_t hits = 0, queries = 0;

  Pos length() const { return static_cast<Pos>(tokens->size()); }
  bool lasting() const { return keep.pinned || keep.ttl_s > kForeverS; }
  Pos own_length() const { return length() - branch_pos; }
  std::uint64_t hash() const { return hashes.back(); }
};

class PoolTree;

// One slot's attachment to a pool; detaches in its destructor. Outlives the pool harmlessly.
class PoolRef {
 public:
  PoolRef() = default;
  PoolRef(PoolRef&& other) noexcept;
  PoolRef& operator=(PoolRef&& other) noexcept;
  ~PoolRef() { reset(); }

  // kNoPool when empty, or when the pool was released meanwhile.
  PoolId id() const;
  void reset();

 private:
  friend class PoolTree;
  PoolRef(PoolTree* tree, PoolId pool, SeqId slot) : tree_(tree), pool_(pool), slot_(slot) {}

  PoolTree* tree_ = nullptr;
  PoolId pool_ = kNoPool;
  SeqId slot_ = kNoSeq;
};

class PoolTree {
 public:
  struct New {
    PoolId parent = kNoPool;
    Pos branch_pos = 0;
    Tokens tokens;
    SeqHandle seq;
    std::string salt;
    Retention keep;
  };
  using IsIdle = std::function<bool(SeqId slot)>;

  explicit PoolTree(const Clock& clock) : clock_(clock) {}
  PoolTree(const PoolTree&) = delete;
  PoolTree& operator=(const PoolTree&) = delete;

  // The caller has checked what invariant 1 says.
  Pool& add(New pool);
  Pool* find(PoolId id);
  const Pool* find(PoolId id) const;
  const std::map<PoolId, Pool>& all() const { return pools_; }
  std::size_t size() const { return pools_.size(); }
  int depth() const;  // 0 without pools, 1 with roots only

  // An unowned pool with the same parent, branch point, tokens and salt.
  const Pool* find_same(PoolId parent, Pos branch_pos, std::span<const Token> tokens, const std::string& salt) const;
  // Living ids of a subtree, leaves before their parents, `id` last.
  std::vector<PoolId> leaves_first(PoolId id) const;
  std::vector<PoolId> owned_by(const std::string& session_id) const;
  std::vector<SeqId> sequences() const;
  // Sequences of the pools that stay until someone says otherwise: pinned, or of endless grace, and their ancestors.
  std::set<SeqId> lasting() const;

  PoolRef attach(PoolId id, SeqId slot);
  void touch(PoolId id);
  void pin(PoolId id, bool pinned) { pools_.at(id).keep.pinned = pinned; }
  // Takes a childless pool out; its sessions are detached. The caller empties the sequence, then lets the Pool die.
  Pool remove(PoolId id);

  // Has neither children nor attached sessions.
  bool unused(const Pool& pool) const { return pool.children.empty() && pool.sessions.empty(); }
  // Unpinned unused leaves whose grace is over, by last access. `exempt` and their ancestors are left out.
  std::vector<PoolId> reclaimable(const std::set<PoolId>& exempt = {}) const;
  // All that would go, one after the other, if idle sessions let go too: unpinned, past its grace, used by nobody who
  // runs.
  std::set<SeqId> evictable(const IsIdle& is_idle, const std::set<PoolId>& exempt = {}) const;
  // The earliest moment when another pool's grace ends.
  std::optional<TimePoint> next_grace_end() const;
  // Ephemeral pools that had a user and have none now.
  std::vector<PoolId> spent() const;

  std::string check_integrity() const;

 private:
  friend class PoolRef;
  void detach(PoolId id, SeqId slot);
  bool past_grace(const Pool& pool) const;
  std::set<PoolId> chain_up(PoolId id) const;  // the pool and its ancestors
  std::set<PoolId> with_ancestors(const std::set<PoolId>& ids) const;

  const Clock& clock_;
  std::map<PoolId, Pool> pools_;
  std::set<PoolId> was_used_;  // ephemeral ones that had a user
  PoolId next_id_ = 0;
};

}  // namespace roost::kv
