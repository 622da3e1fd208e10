#include "kv/pool_tree.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "kv/prefix_hash.h"

namespace roost::kv {

PoolRef::PoolRef(PoolRef&& other) noexcept
    : tree_(std::exchange(other.tree_, nullptr)), pool_(other.pool_), slot_(other.slot_) {}

PoolRef& PoolRef::operator=(PoolRef&& other) noexcept {
  if (this != &other) {
    reset();
    tree_ = std::exchange(other.tree_, nullptr);
    pool_ = other.pool_;
    slot_ = other.slot_;
  }
  return *this;
}

PoolId PoolRef::id() const {
  if (tree_ == nullptr) return kNoPool;
  const Pool* pool = tree_->find(pool_);
  return pool != nullptr && pool->sessions.contains(slot_) ? pool_ : kNoPool;
}

void PoolRef::reset() {
  if (tree_ != nullptr) tree_->detach(pool_, slot_);
  tree_ = nullptr;
}

Pool& PoolTree::add(New n) {
  const PoolId id = next_id_++;
  Pool pool;
  pool.id = id;
  pool.parent = n.parent;
  pool.branch_pos = n.branch_pos;
  pool.hashes = prefix_hashes(n.tokens);
  pool.tokens = std::make_shared<const Tokens>(std::move(n.tokens));
  pool.seq = std::move(n.seq);
  pool.salt = std::move(n.salt);
  pool.keep = std::move(n.keep);
  pool.created_ts = clock_.unix_seconds();
  ROOST_CHECK(pool.branch_pos >= 0 && pool.branch_pos < pool.length());
  Pool& added = pools_.emplace(id, std::move(pool)).first->second;
  if (added.parent != kNoPool) {
    Pool& parent = pools_.at(added.parent);
    parent.children.insert(id);
    if (parent.keep.ephemeral) was_used_.insert(parent.id);
    touch(parent.id);
  }
  touch(id);
  return added;
}

Pool* PoolTree::find(PoolId id) {
  const auto it = pools_.find(id);
  return it == pools_.end() ? nullptr : &it->second;
}
const Pool* PoolTree::find(PoolId id) const { return const_cast<PoolTree*>(this)->find(id); }

int PoolTree::depth() const {
  int deepest = 0;
  for (const auto& [id, pool] : pools_) deepest = std::max(deepest, static_cast<int>(chain_up(id).size()));
  return deepest;
}

const Pool* PoolTree::find_same(PoolId parent, Pos branch_pos, std::span<const Token> tokens,
                                const std::string& salt) const {
  for (const auto& [id, pool] : pools_) {
    if (pool.keep.owner.empty() && pool.parent == parent && pool.branch_pos == branch_pos && pool.salt == salt &&
        std::equal(pool.tokens->begin(), pool.tokens->end(), tokens.begin(), tokens.end())) {
      return &pool;
    }
  }
  return nullptr;
}

std::vector<PoolId> PoolTree::leaves_first(PoolId id) const {
  std::vector<PoolId> order;
  if (find(id) == nullptr) return order;
  order.push_back(id);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& children = pools_.at(order[i]).children;
    order.insert(order.end(), children.begin(), children.end());
  }
  std::reverse(order.begin(), order.end());
  return order;
}

std::vector<PoolId> PoolTree::owned_by(const std::string& session_id) const {
  std::vector<PoolId> owned;
  for (const auto& [id, pool] : pools_) {
    if (pool.keep.owner == session_id) owned.push_back(id);
  }
  return owned;
}

std::vector<SeqId> PoolTree::sequences() const {
  std::vector<SeqId> result;
  for (const auto& [id, pool] : pools_) result.push_back(pool.seq.id());
  return result;
}

std::set<SeqId> PoolTree::lasting() const {
  std::set<PoolId> ids;
  for (const auto& [id, pool] : pools_) {
    if (pool.lasting()) ids.insert(id);
  }
  std::set<SeqId> result;
  for (const PoolId id : with_ancestors(ids)) result.insert(pools_.at(id).seq.id());
  return result;
}

PoolRef PoolTree::attach(PoolId id, SeqId slot) {
  Pool& pool = pools_.at(id);
  ROOST_CHECK(pool.sessions.insert(slot).second, "a slot attaches once");
  if (pool.keep.ephemeral) was_used_.insert(id);
  touch(id);
  return PoolRef(this, id, slot);
}

void PoolTree::detach(PoolId id, SeqId slot) {
  if (Pool* pool = find(id); pool != nullptr) pool->sessions.erase(slot);
}

void PoolTree::touch(PoolId id) {
  Pool& pool = pools_.at(id);
  pool.last_access = clock_.now();
  pool.last_access_ts = clock_.unix_seconds();
}

Pool PoolTree::remove(PoolId id) {
  const auto it = pools_.find(id);
  ROOST_CHECK(it != pools_.end() && it->second.children.empty(), "only a leaf of the pool tree goes");
  Pool pool = std::move(it->second);
  pools_.erase(it);
  was_used_.erase(id);
  if (pool.parent != kNoPool) pools_.at(pool.parent).children.erase(id);
  return pool;
}

bool PoolTree::past_grace(const Pool& pool) const {
  return seconds(clock_.now() - pool.last_access) >= pool.keep.ttl_s;
}

std::set<PoolId> PoolTree::chain_up(PoolId id) const {
  std::set<PoolId> chain;
  for (const Pool* p = find(id); p != nullptr; p = find(p->parent)) chain.insert(p->id);
  return chain;
}

std::set<PoolId> PoolTree::with_ancestors(const std::set<PoolId>& ids) const {
  std::set<PoolId> all;
  for (const PoolId id : ids) all.merge(chain_up(id));
  return all;
}

std::vector<PoolId> PoolTree::reclaimable(const std::set<PoolId>& exempt) const {
  const auto needed = with_ancestors(exempt);
  std::vector<const Pool*> found;
  for (const auto& [id, pool] : pools_) {
    if (!pool.keep.pinned && unused(pool) && past_grace(pool) && !needed.contains(id)) found.push_back(&pool);
  }
  std::sort(found.begin(), found.end(), [](const Pool* a, const Pool* b) {
    return a->last_access != b->last_access ? a->last_access < b->last_access : a->id < b->id;
  });
  std::vector<PoolId> result;
  for (const Pool* pool : found) result.push_back(pool->id);
  return result;
}

std::set<SeqId> PoolTree::evictable(const IsIdle& is_idle, const std::set<PoolId>& exempt) const {
  const auto needed = with_ancestors(exempt);
  std::set<PoolId> going;
  std::set<SeqId> result;
  // Children have higher ids than their parents, so from the newest on every child is judged first.
  for (auto it = pools_.rbegin(); it != pools_.rend(); ++it) {
    const Pool& pool = it->second;
    if (pool.keep.pinned || needed.contains(pool.id) || !past_grace(pool)) continue;
    if (!std::all_of(pool.sessions.begin(), pool.sessions.end(), is_idle)) continue;
    if (!std::all_of(pool.children.begin(), pool.children.end(), [&](PoolId c) { return going.contains(c); })) continue;
    going.insert(pool.id);
    result.insert(pool.seq.id());
  }
  return result;
}

std::optional<TimePoint> PoolTree::next_grace_end() const {
  std::optional<TimePoint> earliest;
  for (const auto& [id, pool] : pools_) {
    if (pool.lasting() || past_grace(pool)) continue;
    const auto end = pool.last_access + Duration(static_cast<std::int64_t>(pool.keep.ttl_s * 1e9) + 1);
    if (!earliest || end < *earliest) earliest = end;
  }
  return earliest;
}

std::vector<PoolId> PoolTree::spent() const {
  std::vector<PoolId> result;
  for (const PoolId id : was_used_) {
    const Pool& pool = pools_.at(id);
    if (unused(pool) && !pool.keep.pinned) result.push_back(id);
  }
  return result;
}

std::string PoolTree::check_integrity() const {
  std::set<SeqId> attached;
  for (const auto& [id, pool] : pools_) {
    const auto name = "pool " + std::to_string(id);
    if (pool.id != id || !pool.seq) return name + " has no sequence";
    if (pool.hashes.size() != pool.tokens->size()) return name + " lost its hashes";
    if (pool.branch_pos < 0 || pool.branch_pos >= pool.length()) return name + " branches outside of itself";
    if (pool.parent == kNoPool) {
      if (pool.branch_pos != 0) return name + " is a root that inherits";
    } else {
      const Pool* parent = find(pool.parent);
      if (parent == nullptr || !parent->children.contains(id)) return name + " lost its parent";
      if (pool.branch_pos > parent->length()) return name + " branches beyond its parent";
      if (pool.branch_pos > 0) {
        const auto last = static_cast<std::size_t>(pool.branch_pos - 1);
        if (pool.hashes[last] != parent->hashes[last]) return name + " differs from its parent before the branch";
      }
    }
    for (const PoolId child : pool.children) {
      if (const Pool* c = find(child); c == nullptr || c->parent != id)
        return name + " lists a child that is not its own";
    }
    for (const SeqId slot : pool.sessions) {
      if (!attached.insert(slot).second) return "slot " + std::to_string(slot) + " is attached to two pools";
    }
  }
  return {};
}

}  // namespace roost::kv
