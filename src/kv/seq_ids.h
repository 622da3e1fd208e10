// SeqIds: which sequence ids of a range are taken. SeqHandle: one taken id, given back in its destructor.
//
// The lowest free id is given first, so that ids stay dense and runs repeat exactly. A handle that dies while its
// sequence still holds cells is a broken invariant: the id's next holder would see them. Engine thread only.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kv/types.h"

namespace roost::kv {

class SeqIds;

class SeqHandle {
 public:
  SeqHandle() = default;
  SeqHandle(SeqHandle&& other) noexcept;
  SeqHandle& operator=(SeqHandle&& other) noexcept;
  ~SeqHandle() { reset(); }

  SeqId id() const { return id_; }  // kNoSeq when empty
  explicit operator bool() const { return id_ != kNoSeq; }
  void reset();

 private:
  friend class SeqIds;
  SeqHandle(SeqIds* owner, SeqId id) : owner_(owner), id_(id) {}

  SeqIds* owner_ = nullptr;
  SeqId id_ = kNoSeq;
};

class SeqIds {
 public:
  // Ids [begin, end). `is_empty` tells whether a sequence holds no cell; asked when a handle dies.
  SeqIds(SeqId begin, SeqId end, std::function<bool(SeqId)> is_empty);
  SeqIds(const SeqIds&) = delete;
  SeqIds& operator=(const SeqIds&) = delete;
  ~SeqIds();

  // Empty: all are taken.
  std::optional<SeqHandle> take();
  // Empty: out of the range, or taken.
  std::optional<SeqHandle> take(SeqId id);

  bool in_range(SeqId id) const { return id >= begin_ && id < end_; }
  bool taken(SeqId id) const;
  SeqId used() const { return used_; }
  SeqId size() const { return end_ - begin_; }
  SeqId begin() const { return begin_; }
  SeqId end() const { return end_; }

  // Empty string, or the broken invariant.
  std::string check_integrity() const;

 private:
  friend class SeqHandle;
  void give_back(SeqId id);

  const SeqId begin_, end_;
  const std::function<bool(SeqId)> is_empty_;
  std::vector<bool> taken_;
  SeqId used_ = 0;
};

}  // namespace roost::kv
