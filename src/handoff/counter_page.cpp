#include "handoff/counter_page.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <new>
#include <utility>

#include "core/check.h"

namespace roost::handoff {

inline constexpr std::uint64_t kMagic = 0x726f6f7374'70'0001;  // "roostp", layout 1

// A cache line each: two workers' counts never share one.
struct alignas(64) RowMemory {
  std::atomic<std::uint64_t> word;
  std::atomic<std::uint32_t> capacity;
  std::atomic<std::int64_t> idle_since_ns;
};

struct alignas(64) PageHeader {
  std::uint64_t magic;
  std::uint32_t rows;
  std::uint32_t claims;
  std::atomic<std::uint64_t> over_admissions;
};

namespace {

std::size_t page_bytes(std::uint32_t rows, std::uint32_t claims) {
  return sizeof(PageHeader) + rows * sizeof(RowMemory) + claims * sizeof(std::atomic<std::uint64_t>);
}

constexpr std::uint64_t claim_word(std::uint64_t ticket, ClaimState state) {
  return ticket << 2U | static_cast<std::uint64_t>(state);
}

}  // namespace

template <class Change>
bool Row::change(Change&& next) const {
  if (memory_ == nullptr) return false;
  std::uint64_t word = memory_->word.load(std::memory_order_acquire);
  while (true) {
    const Load now = unpack(word);
    if (now.generation != generation_) return false;
    const std::optional<Load> then = next(now);
    if (!then) return false;
    if (!memory_->word.compare_exchange_weak(word, pack(*then), std::memory_order_acq_rel)) continue;
    if (then->places_taken() > memory_->capacity.load(std::memory_order_relaxed)) {
      header_->over_admissions.fetch_add(1, std::memory_order_relaxed);
    }
    return true;
  }
}

bool Row::owned() const {
  return memory_ != nullptr && unpack(memory_->word.load(std::memory_order_acquire)).generation == generation_;
}

Load Row::load() const {
  if (memory_ == nullptr) return {};
  const Load now = unpack(memory_->word.load(std::memory_order_acquire));
  return now.generation == generation_ ? now : Load{};
}

std::uint32_t Row::capacity() const {
  return memory_ == nullptr ? 0 : memory_->capacity.load(std::memory_order_relaxed);
}

bool Row::try_reserve() const {
  return change([s = capacity()](const Load& l) { return with_reservation(l, s); });
}
bool Row::release_reservation() const { return change(without_reservation); }
bool Row::start_reserved() const { return change(with_reserved_turn); }
bool Row::try_start() const {
  return change([s = capacity()](const Load& l) { return with_turn(l, s); });
}
bool Row::end_turn() const {
  if (!change(without_turn)) return false;
  memory_->idle_since_ns.store(std::chrono::steady_clock::now().time_since_epoch().count(), std::memory_order_relaxed);
  return true;
}
bool Row::open_connection() const { return change(with_connection); }
bool Row::close_connection() const { return change(without_connection); }

std::chrono::steady_clock::time_point Row::idle_since() const {
  using Time = std::chrono::steady_clock::time_point;
  return memory_ == nullptr ? Time{} : Time(Time::duration(memory_->idle_since_ns.load(std::memory_order_relaxed)));
}

Result<CounterPage> CounterPage::create(std::uint32_t rows, std::uint32_t claims) {
  ROOST_CHECK(rows > 0 && rows <= kMaxRows && claims > 0 && claims <= kMaxClaims);
  const std::size_t bytes = page_bytes(rows, claims);
  UniqueFd fd(::memfd_create("roost-counters", MFD_CLOEXEC));
  if (!fd) return io_error("memfd_create for the counter page", errno);
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) return io_error("sizing the counter page", errno);
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return io_error("mapping the counter page", errno);

  auto* header = new (memory) PageHeader{kMagic, rows, claims, 0};
  auto* row = reinterpret_cast<RowMemory*>(header + 1);
  for (std::uint32_t i = 0; i < rows; ++i) new (row + i) RowMemory{0, 0, 0};
  auto* claim = reinterpret_cast<std::atomic<std::uint64_t>*>(row + rows);
  for (std::uint32_t i = 0; i < claims; ++i) new (claim + i) std::atomic<std::uint64_t>(0);
  return CounterPage(std::move(fd), memory, bytes);
}

Result<CounterPage> CounterPage::open(UniqueFd fd) {
  struct stat about {};
  if (::fstat(fd.get(), &about) != 0) return io_error("the inherited counter page", errno);
  const auto bytes = static_cast<std::size_t>(about.st_size);
  const auto not_a_page =
      Error{ErrorKind::bad_config, "the inherited descriptor is not a counter page of this version", {}, {}};
  if (bytes < sizeof(PageHeader)) return not_a_page;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return io_error("mapping the counter page", errno);
  CounterPage page(std::move(fd), memory, bytes);
  const PageHeader* header = page.header();
  if (header->magic != kMagic || header->rows > kMaxRows || header->claims > kMaxClaims ||
      page_bytes(header->rows, header->claims) != bytes) {
    return not_a_page;
  }
  return page;
}

CounterPage::CounterPage(CounterPage&& other) noexcept
    : fd_(std::move(other.fd_)), memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_) {}

CounterPage::~CounterPage() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

std::uint32_t CounterPage::rows() const { return header()->rows; }
std::uint32_t CounterPage::claims() const { return header()->claims; }

RowMemory* CounterPage::row_at(std::uint32_t row) const {
  ROOST_CHECK(row < rows());
  return reinterpret_cast<RowMemory*>(header() + 1) + row;
}

std::atomic<std::uint64_t>* CounterPage::claim_at(std::uint32_t slot) const {
  ROOST_CHECK(slot < claims());
  return reinterpret_cast<std::atomic<std::uint64_t>*>(reinterpret_cast<RowMemory*>(header() + 1) + rows()) + slot;
}

Row CounterPage::assign(std::uint32_t row, std::uint32_t capacity) const {
  ROOST_CHECK(capacity > 0 && capacity <= kMaxPlaces);
  RowMemory* memory = row_at(row);
  const std::uint32_t before = unpack(memory->word.load(std::memory_order_acquire)).generation;
  const std::uint32_t generation = before >= kMaxGeneration ? 1 : before + 1;
  memory->capacity.store(capacity, std::memory_order_relaxed);
  memory->idle_since_ns.store(0, std::memory_order_relaxed);
  memory->word.store(pack({generation, 0, 0, 0}), std::memory_order_release);
  return {memory, header(), generation};
}

void CounterPage::retire(const Row& row) const {
  if (!row.owned()) return;
  const std::uint32_t generation = row.generation() >= kMaxGeneration ? 1 : row.generation() + 1;
  row.memory_->word.store(pack({generation, 0, 0, 0}), std::memory_order_release);
}

Result<Row> CounterPage::attach(std::uint32_t row, std::uint32_t generation) const {
  if (row >= rows() || generation == 0 || generation > kMaxGeneration) {
    return Error{ErrorKind::bad_config, "the inherited row does not fit the counter page", {}, {}};
  }
  return Row(row_at(row), header(), generation);
}

void CounterPage::open_claim(std::uint32_t slot, std::uint64_t ticket) const {
  claim_at(slot)->store(claim_word(ticket, ClaimState::open), std::memory_order_release);
}

bool CounterPage::change_claim(std::uint32_t slot, std::uint64_t ticket, ClaimState to) const {
  if (slot >= claims()) return false;
  std::uint64_t expected = claim_word(ticket, ClaimState::open);
  return claim_at(slot)->compare_exchange_strong(expected, claim_word(ticket, to), std::memory_order_acq_rel);
}

bool CounterPage::claim(std::uint32_t slot, std::uint64_t ticket) const {
  return change_claim(slot, ticket, ClaimState::claimed);
}
bool CounterPage::decline(std::uint32_t slot, std::uint64_t ticket) const {
  return change_claim(slot, ticket, ClaimState::declined);
}
bool CounterPage::take_back(std::uint32_t slot, std::uint64_t ticket) const {
  return change_claim(slot, ticket, ClaimState::closed);
}

ClaimState CounterPage::claim_state(std::uint32_t slot, std::uint64_t ticket) const {
  const std::uint64_t word = claim_at(slot)->load(std::memory_order_acquire);
  if (word >> 2U != ticket) return ClaimState::closed;
  return static_cast<ClaimState>(word & 3U);
}

std::uint64_t CounterPage::over_admissions() const { return header()->over_admissions.load(std::memory_order_relaxed); }

void CounterPage::check_integrity() const {
  for (std::uint32_t i = 0; i < rows(); ++i) {
    const RowMemory* row = row_at(i);
    const Load load = unpack(row->word.load(std::memory_order_acquire));
    const std::uint32_t capacity = row->capacity.load(std::memory_order_relaxed);
    ROOST_CHECK(load.places_taken() <= capacity, "a word above its capacity");
  }
  ROOST_CHECK(over_admissions() == 0, "a word was above its capacity");
}

}  // namespace roost::handoff
