#include "api/pool_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace roost::api {
namespace {

using engine::EngineView;
using engine::PoolView;
using engine::SlotView;

json::value pool_or_null(kv::PoolId id) {
  if (id == kv::kNoPool) return nullptr;
  return id;
}

json::value text_or_null(const std::string& text) {
  if (text.empty()) return nullptr;
  return json::value(text);
}

json::object session_json(const SlotView& s) {
  return {{"session_id", text_or_null(s.session_id)},
          {"suffix_n_tokens", s.n_suffix},
          {"marginal_kv_bytes", s.marginal_kv_bytes},
          {"tps_ewma", s.tps_ewma},
          {"ttft_ms", s.ttft_ms},
          {"state", engine::to_string(s.state)}};
}

std::string_view residency(const PoolView& p) {
  if (p.materializing) return "materializing";
  return p.restored ? "restored" : "resident";
}

json::object pool_json(const PoolView& p, bool with_tokens) {
  json::array children, sessions;
  for (const auto id : p.children) children.push_back(id);
  for (const auto& s : p.sessions) sessions.push_back(session_json(s));
  json::object out{{"pool_id", p.pool_id},
                   {"parent", p.parent},
                   {"branch_pos", p.branch_pos},
                   {"prefix_len", p.prefix_len},
                   {"own_len", p.own_len},
                   {"prefix_hash", fmt::format("{:016x}", p.prefix_hash)},
                   {"seq_id", p.seq_id},
                   {"owner", text_or_null(p.owner)},
                   {"pinned", p.pinned},
                   {"ephemeral", p.ephemeral},
                   {"ttl_s", p.ttl_s},
                   {"created_ts", p.created_ts},
                   {"last_access_ts", p.last_access_ts},
                   {"children", std::move(children)},
                   {"own_kv_bytes", p.own_kv_bytes},
                   {"subtree_kv_bytes", p.subtree_kv_bytes},
                   {"inherited_cells", p.inherited_cells},
                   {"residency", residency(p)},
                   {"restored", p.restored},
                   {"orphaned_pin", p.orphaned_pin},
                   {"admission", nullptr},
                   {"sessions", std::move(sessions)}};
  if (with_tokens && p.tokens) {
    json::array tokens;
    for (const auto t : *p.tokens) tokens.push_back(t);
    out["tokens"] = std::move(tokens);
  }
  return out;
}

// The pool and its descendants.
std::set<kv::PoolId> subtree_of(const EngineView& view, kv::PoolId root) {
  std::set<kv::PoolId> members{root};
  for (bool grew = true; grew;) {
    grew = false;
    for (const PoolView& p : view.pools) {
      if (members.contains(p.parent) && members.insert(p.pool_id).second) grew = true;
    }
  }
  return members;
}

json::object slot_json(const SlotView& s) {
  return {{"id", s.slot},
          {"id_slot", s.slot},
          {"session_id", text_or_null(s.session_id)},
          {"pool_id", pool_or_null(s.pool_id)},
          {"state", engine::to_string(s.state)},
          {"is_processing", s.processing},
          {"n_ctx", s.ctx_total},
          {"n_shared", s.n_shared},
          {"n_suffix", s.n_suffix},
          {"n_prompt_tokens", s.n_prompt},
          {"n_prompt_tokens_processed", s.n_prefilled},
          {"n_decoded", s.n_decoded},
          {"tps_ewma", s.tps_ewma},
          {"ttft_ms", s.ttft_ms},
          {"ctx_used", s.ctx_used},
          {"ctx_total", s.ctx_total},
          {"ctx_headroom_tokens", s.ctx_headroom},
          {"marginal_kv_bytes", s.marginal_kv_bytes}};
}

// Cells that one new session could still take.
std::size_t largest_admissible(const EngineView& view) {
  const std::size_t room = view.cells_free + view.evictable;
  return room > view.cells_reserved ? room - view.cells_reserved : 0;
}

bool is_open(const SlotView& s) { return s.processing || s.ctx_used > 0 || !s.session_id.empty(); }

}  // namespace

std::optional<json::object> pools_json(const EngineView& view, std::optional<kv::PoolId> root, bool with_tokens) {
  const bool known = !root || std::ranges::any_of(view.pools, [&](const PoolView& p) { return p.pool_id == *root; });
  if (!known) return std::nullopt;
  const std::set<kv::PoolId> members = root ? subtree_of(view, *root) : std::set<kv::PoolId>{};
  json::array pools;
  for (const PoolView& p : view.pools) {
    if (!root || members.contains(p.pool_id)) pools.push_back(pool_json(p, with_tokens));
  }
  return json::object{{"pools", std::move(pools)},
                      {"pools_max", view.pools_max},
                      {"tree_depth", view.tree_depth},
                      {"seq_ids_used", view.seq_ids_used},
                      {"seq_ids_max", view.seq_ids_max}};
}

json::array slots_json(const EngineView& view) {
  json::array slots;
  for (const SlotView& s : view.slots) slots.push_back(slot_json(s));
  return slots;
}

json::object tps_json(const EngineView& view) {
  json::array sessions;
  for (const SlotView& s : view.slots) {
    if (!is_open(s)) continue;
    sessions.push_back(json::object{{"slot_id", s.slot},
                                    {"session_id", text_or_null(s.session_id)},
                                    {"pool_id", pool_or_null(s.pool_id)},
                                    {"tps_ewma", s.tps_ewma},
                                    {"active", s.processing},
                                    {"ctx_used", s.ctx_used},
                                    {"ctx_total", s.ctx_total},
                                    {"ctx_headroom_tokens", s.ctx_headroom}});
  }
  return {{"ts", view.ts},
          {"aggregate_tps", view.aggregate_tps},
          {"mean_active_tps", view.mean_active_tps},
          {"n_warming", view.n_warming},
          {"n_prefilling", view.n_prefilling},
          {"prefill_backlog_tokens", view.prefill_backlog_tokens},
          {"sessions", std::move(sessions)}};
}

json::object kv_json(const EngineView& view) {
  json::array allocations;
  std::int32_t idle_resident = 0;
  for (const SlotView& s : view.slots) {
    if (!is_open(s)) continue;
    if (!s.processing) ++idle_resident;
    json::array pools;
    if (s.pool_id != kv::kNoPool) pools.push_back(s.pool_id);
    allocations.push_back(json::object{{"key", fmt::format("slot:{}", s.slot)},
                                       {"session_id", text_or_null(s.session_id)},
                                       {"cells", s.n_suffix},
                                       {"used", s.ctx_used},
                                       {"reserved", s.ctx_used + s.ctx_headroom},
                                       {"pool_id", pool_or_null(s.pool_id)},
                                       {"pools", std::move(pools)}});
  }
  for (const PoolView& p : view.pools) {
    allocations.push_back(json::object{{"key", fmt::format("pool:{}", p.pool_id)},
                                       {"session_id", text_or_null(p.owner)},
                                       {"cells", p.own_len},
                                       {"used", p.prefix_len},
                                       {"reserved", 0},
                                       {"pool_id", p.pool_id},
                                       {"pools", json::array{p.pool_id}}});
  }
  return {{"cells_total", view.cells_total},
          {"cells_used", view.cells_used},
          {"cells_free", view.cells_free},
          {"cells_reserved", view.cells_reserved},
          {"cells_evictable", view.evictable},
          {"cells_protected", view.protected_cells},
          {"bytes_per_cell", view.bytes_per_cell},
          {"largest_admissible", largest_admissible(view)},
          {"swa", nullptr},
          {"rs", nullptr},
          {"allocations", std::move(allocations)},
          {"pressure",
           json::object{{"window_s", nullptr},
                        {"refusals_total", view.refused_total},
                        {"last_refusal_age_s", view.refused_total == 0 ? json::value(-1) : json::value(nullptr)},
                        {"idle_resident", idle_resident}}}};
}

}  // namespace roost::api
