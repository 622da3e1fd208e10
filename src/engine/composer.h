// The batch composer: which session gets how many tokens of the next step. A pure function of a snapshot and the cost
// model.
//
// Decode tokens come first, prefill fills up to a budget: the full batch when nobody decodes, else as much as keeps the
// step below max_gap_ms by the cost model, but at least min_prefill, so that a prompt always gets on. The unit is
// "tokens of a session in this step".
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/cost_model.h"
#include "kv/types.h"

namespace roost::engine {

struct DecodeItem {
  std::uint64_t session = 0;
  kv::Pos context = 0;          // resident tokens
  std::uint64_t last_step = 0;  // when it last advanced; who waited longest goes first
};

struct PrefillItem {
  std::uint64_t session = 0;  // lower = older
  kv::Pos next = 0;           // resident tokens
  kv::Pos remaining = 0;      // > 0
  int followers = 0;          // sessions that wait for it
};

struct ComposeLimits {
  std::int32_t batch = 2048;
  std::int32_t max_decoding = 8;
  std::int32_t min_prefill = 32;
  double max_gap_ms = 200;
  std::int32_t prefill_cap = INT32_MAX;  // set after "no slot": at most this much prefill
};

struct Slice {
  std::uint64_t session = 0;
  std::int32_t tokens = 0;
  bool prefill = false;
};

struct Composition {
  std::vector<Slice> slices;  // decode first
  StepShape shape;
};

Composition compose(std::vector<DecodeItem> decode, std::vector<PrefillItem> prefill, const CostModel& cost,
                    const ComposeLimits& limits);

}  // namespace roost::engine
