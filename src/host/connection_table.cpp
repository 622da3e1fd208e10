#include "host/connection_table.h"

#include <unistd.h>

#include "core/check.h"
#include "host/poller.h"

namespace roost::host {

ConnectionTable::~ConnectionTable() {
  for (const Connection& c : records_) {
    if (c.fd >= 0) ::close(c.fd);
  }
}

std::uint32_t ConnectionTable::add(int fd, TimePoint now) {
  if (list(Stage::free).count == 0) {
    records_.emplace_back();
    append(static_cast<std::uint32_t>(records_.size() - 1), Stage::free);
  }
  const std::uint32_t index = front(Stage::free);
  unlink(index);
  Connection& c = records_[index];
  const std::uint32_t sequence = (c.sequence + 1) & Tag::kSequenceMask;
  c = Connection{};
  c.sequence = sequence;
  c.fd = fd;
  c.since = now;
  append(index, Stage::idle);
  ++held_;
  return index;
}

void ConnectionTable::drop(std::uint32_t index) {
  Connection& c = records_[index];
  ROOST_CHECK(c.stage != Stage::free && c.fd >= 0, "a connection is dropped once");
  ::close(c.fd);
  c.fd = -1;
  unlink(index);
  append(index, Stage::free);
  --held_;
}

void ConnectionTable::move(std::uint32_t index, Stage to, TimePoint now) {
  ROOST_CHECK(to != Stage::free && records_[index].stage != Stage::free);
  unlink(index);
  records_[index].since = now;
  append(index, to);
}

bool ConnectionTable::is_current(std::uint32_t index, std::uint32_t sequence) const {
  return index < records_.size() && records_[index].stage != Stage::free && records_[index].sequence == sequence;
}

void ConnectionTable::unlink(std::uint32_t index) {
  Connection& c = records_[index];
  List& from = list(c.stage);
  (c.previous == kNoConnection ? from.first : records_[c.previous].next) = c.next;
  (c.next == kNoConnection ? from.last : records_[c.next].previous) = c.previous;
  c.previous = c.next = kNoConnection;
  --from.count;
}

void ConnectionTable::append(std::uint32_t index, Stage stage) {
  Connection& c = records_[index];
  List& to = list(stage);
  c.stage = stage;
  c.previous = to.last;
  c.next = kNoConnection;
  (to.last == kNoConnection ? to.first : records_[to.last].next) = index;
  to.last = index;
  ++to.count;
}

void ConnectionTable::check_integrity() const {
  std::size_t total = 0;
  for (std::size_t s = 0; s < kStages; ++s) {
    const auto stage = static_cast<Stage>(s);
    std::size_t count = 0;
    TimePoint latest{};
    std::uint32_t previous = kNoConnection;
    for (std::uint32_t i = front(stage); i != kNoConnection; i = records_[i].next) {
      const Connection& c = records_[i];
      ROOST_CHECK(c.stage == stage, "a record in another stage's list");
      ROOST_CHECK(c.previous == previous, "a list that does not run backwards as forwards");
      ROOST_CHECK((c.fd >= 0) == (stage != Stage::free), "a descriptor is held exactly while the record is");
      if (stage != Stage::free) {
        ROOST_CHECK(c.since >= latest, "a stage out of order");
        latest = c.since;
      }
      previous = i;
      ++count;
    }
    ROOST_CHECK(count == list(stage).count);
    total += count;
  }
  ROOST_CHECK(total == records_.size(), "a record in no list");
  ROOST_CHECK(held_ + count(Stage::free) == records_.size());
}

}  // namespace roost::host
