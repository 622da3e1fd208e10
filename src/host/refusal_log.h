// Why each 429 was given: the load of every ready worker at that moment, and the next load seen of each. A ring; the
// oldest records go first. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "host/routing_policy.h"

namespace roost::host {

struct RefusedWorker {
  std::uint32_t worker;  // its id, from 1
  std::uint16_t reserved;
  std::uint16_t in_flight;
  std::uint16_t next_reserved;
  std::uint16_t next_in_flight;
  bool next_known;
};

struct Refusal {
  double unix_seconds = 0;
  std::uint32_t turns_per_worker = 0;
  std::vector<RefusedWorker> workers;  // the ready ones; empty = none was ready
};

class RefusalLog {
 public:
  // Memory for `workers` a record, from the start; at most kMaxCells in all, so a host with very many workers keeps
  // fewer records than `records`.
  RefusalLog(std::size_t records, std::size_t workers);
  static constexpr std::size_t kMaxCells = 4'000'000;

  // `ids[i]` is the id of the worker of `loads[i]`.
  void add(double unix_seconds, std::uint32_t turns_per_worker, std::span<const WorkerLoad> loads,
           std::span<const std::uint32_t> ids);
  // The loads as they are now: they complete the records that still lack their next ones.
  void observe(std::span<const WorkerLoad> loads, std::span<const std::uint32_t> ids);

  // Oldest first.
  std::vector<Refusal> list() const;

 private:
  struct Head {
    double unix_seconds;
    std::uint32_t turns_per_worker;
    std::uint32_t workers;
  };
  RefusedWorker* cells_of(std::size_t slot) const { return &cells_[slot * workers_]; }

  const std::size_t workers_;
  const std::size_t records_;
  mutable std::mutex mutex_;
  std::vector<Head> heads_;
  std::unique_ptr<RefusedWorker[]> cells_;
  std::size_t next_ = 0;  // where the next record goes
  std::size_t count_ = 0;
  std::size_t unobserved_ = 0;  // the youngest records that lack their next loads
};

}  // namespace roost::host
