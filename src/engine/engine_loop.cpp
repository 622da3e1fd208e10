#include "engine/engine_loop.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace roost::engine {
namespace {

std::int32_t limit_of(const EngineOptions& o, const kv::KvTraits& traits, std::int32_t training_length) {
  std::int32_t limit = static_cast<std::int32_t>(std::min<std::size_t>(traits.cells, INT32_MAX));
  if (training_length > 0) limit = std::min(limit, training_length);
  if (o.session_limit > 0) limit = std::min(limit, o.session_limit);
  return limit;
}

}  // namespace

EngineLoop::EngineLoop(kv::KvPort& kv, ModelPort& model, const Clock& clock, const EngineOptions& options, Wake wake,
                       bool use_anchor)
    : kv_(kv, options.parallel, options.max_pools, use_anchor),
      pools_(clock),
      model_(model),
      clock_(clock),
      options_(options),
      wake_(std::move(wake)),
      session_limit_(limit_of(options, kv_.traits(), model.training_length())),
      seats_(static_cast<std::size_t>(kv_.traits().n_seq), nullptr),
      aggregate_(options.tps_tau_ms / 1000.0) {
  ROOST_CHECK(options.batch >= 1 && options.auto_share_min >= 1 && session_limit_ >= 2);
  publish();
}

EngineLoop::~EngineLoop() { shut_down(); }

void EngineLoop::shut_down() {
  each([this](Session& s) {
    if (s.idle()) return drop_idle(s);
    end(s, Error{ErrorKind::shutting_down, "the engine is shutting down", {}, {}}, Keep::nothing);
  });
  while (pools_.size() > 0) drop_pool(pools_.all().rbegin()->first);  // children have higher ids
  settle();
}

Session* EngineLoop::find(SessionNumber number) {
  const auto it = sessions_.find(number);
  return it == sessions_.end() ? nullptr : &it->second;
}

Session* EngineLoop::at(kv::SeqId seq) const {
  return seq >= 0 && static_cast<std::size_t>(seq) < seats_.size() ? seats_[static_cast<std::size_t>(seq)] : nullptr;
}

Session* EngineLoop::idle_of(const std::string& session_id) const {
  if (session_id.empty()) return nullptr;
  const auto found = std::find_if(seats_.begin(), seats_.end(), [&](const Session* s) {
    return s != nullptr && s->idle() && s->session_id == session_id;
  });
  return found == seats_.end() ? nullptr : *found;
}

// Does a request of this conversation run?
bool EngineLoop::busy(const std::string& session_id) const {
  if (session_id.empty()) return false;
  return std::any_of(seats_.begin(), seats_.end(),
                     [&](const Session* s) { return s != nullptr && s->running() && s->session_id == session_id; });
}

Session& EngineLoop::new_session(const std::string& session_id, const std::string& salt, kv::Tokens tokens) {
  const SessionNumber number = next_number_++;
  Session& s = sessions_.try_emplace(number, options_.tps_tau_ms / 1000.0).first->second;
  s.number = number;
  s.session_id = session_id;
  s.salt = salt;
  s.tokens = std::move(tokens);
  return s;
}

// Every session that is there now, oldest first; `f` may end any of them.
void EngineLoop::each(const std::function<void(Session&)>& f) {
  std::vector<SessionNumber> numbers;
  numbers.reserve(sessions_.size());
  for (const auto& [number, s] : sessions_) numbers.push_back(number);
  for (const SessionNumber number : numbers) {
    if (Session* s = find(number)) f(*s);
  }
}

}  // namespace roost::engine
