#include "kv/seq_ids.h"

#include <algorithm>
#include <utility>

#include "core/check.h"

namespace roost::kv {

SeqHandle::SeqHandle(SeqHandle&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)), id_(std::exchange(other.id_, kNoSeq)) {}

SeqHandle& SeqHandle::operator=(SeqHandle&& other) noexcept {
  if (this != &other) {
    reset();
    owner_ = std::exchange(other.owner_, nullptr);
    id_ = std::exchange(other.id_, kNoSeq);
  }
  return *this;
}

void SeqHandle::reset() {
  if (owner_ != nullptr) owner_->give_back(id_);
  owner_ = nullptr;
  id_ = kNoSeq;
}

SeqIds::SeqIds(SeqId begin, SeqId end, std::function<bool(SeqId)> is_empty)
    : begin_(begin), end_(end), is_empty_(std::move(is_empty)), taken_(static_cast<std::size_t>(end - begin), false) {
  ROOST_CHECK(begin >= 0 && end >= begin);
}

SeqIds::~SeqIds() { ROOST_CHECK(used_ == 0, "sequence ids die with handles alive"); }

std::optional<SeqHandle> SeqIds::take() {
  const auto free = std::find(taken_.begin(), taken_.end(), false);
  if (free == taken_.end()) return std::nullopt;
  return take(begin_ + static_cast<SeqId>(free - taken_.begin()));
}

std::optional<SeqHandle> SeqIds::take(SeqId id) {
  if (!in_range(id) || taken(id)) return std::nullopt;
  ROOST_CHECK(is_empty_(id), "a free sequence holds cells");
  taken_[static_cast<std::size_t>(id - begin_)] = true;
  ++used_;
  return SeqHandle(this, id);
}

bool SeqIds::taken(SeqId id) const { return in_range(id) && taken_[static_cast<std::size_t>(id - begin_)]; }

void SeqIds::give_back(SeqId id) {
  ROOST_CHECK(taken(id));
  ROOST_CHECK(is_empty_(id), "a sequence is given back with cells in it");
  taken_[static_cast<std::size_t>(id - begin_)] = false;
  --used_;
}

std::string SeqIds::check_integrity() const {
  const auto counted = std::count(taken_.begin(), taken_.end(), true);
  if (counted != used_) return "sequence ids: the count of taken ids is wrong";
  for (SeqId id = begin_; id < end_; ++id) {
    if (!taken(id) && !is_empty_(id)) return "sequence ids: free sequence " + std::to_string(id) + " holds cells";
  }
  return {};
}

}  // namespace roost::kv
