// A living sequence inside the scheduler. Not for callers of the scheduler.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "orchestrator/scheduler/sequence.h"
#include "orchestrator/scheduler/step.h"

namespace sluice {

// The order in which sequences are served, the smaller one first. A sequence keeps its position
// from Add to its end.
struct QueuePosition {
  int64_t negated_priority = 0;
  uint64_t arrival = 0;  // a fork has that of the sequence it comes from
  uint64_t serial = 0;   // unique among all sequences ever

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the default for a literal 0
  friend auto operator<=>(const QueuePosition&, const QueuePosition&) = default;
};

// Why a sequence computes positions again.
enum class RecomputeReason { kNone, kPreemption, kLoss, kGrowth, kPause };

// What steps in flight compute of a sequence. Kept by StepsInFlight.
struct Flight {
  int32_t num_steps = 0;     // steps in flight that it is part of
  int32_t num_promised = 0;  // tokens that they choose, at most
  int32_t num_drafts = 0;    // of these, tokens that count only where drafts are right
  ChosenBy last_promise;     // the last of these tokens
};

struct Tenant;
struct TenantShare;

struct SequenceState {
  // Which list of StateTable a sequence is in. Changed by StateTable alone.
  enum class State : uint8_t {
    kNew,      // in none yet: inside Add or Fork
    kWaiting,  // queued; holds no blocks
    kRunning,  // holds blocks and a slot
    kParked,   // in no list until Resume or Append; holds no blocks
  };

  SequenceState(SequenceSpec spec, const QueuePosition& position);

  bool is_running() const { return state == State::kRunning; }
  int32_t num_tokens() const { return static_cast<int32_t>(tokens.size()); }
  int32_t num_prompt() const { return usage.prompt_tokens; }
  // Its tokens and those that steps in flight choose.
  int32_t length() const { return num_tokens() + flight.num_promised; }
  // Of these, the ones whose positions are neither computed nor in flight.
  int32_t num_pending() const { return length() - num_planned; }

  // Appends the rows that positions [first, first + num_positions) owe.
  void AddRowsFor(int32_t first, int32_t num_positions, Rows& rows) const;
  // Of them, those of an embedding.
  void AddPooledRows(int32_t first, int32_t num_positions, Rows& rows) const;

  // The reason to end now, if there is one.
  std::optional<FinishReason> ReasonToEnd() const;

  SequenceSpec spec;  // its token vectors have moved into `tokens`
  const QueuePosition position;
  const absl::flat_hash_set<TokenId> stop_tokens;
  // Its tenant's account and the scheduler's part of it; set once, by StateTable.
  Tenant* tenant = nullptr;
  TenantShare* share = nullptr;
  // The serial of the sequence that spec.prompt_of named, to tell it from a later one with its
  // id; empty where blocks are not shared.
  std::optional<uint64_t> sibling_serial;
  std::vector<TokenId> tokens;  // prompt, then generated

  State state = State::kNew;
  // What keeps a sequence out of steps, each set and cleared from outside.
  bool paused = false;         // until Resume; it gives up its blocks once no step is in flight
  bool deferred = false;       // until Return; it keeps its blocks
  bool awaits_choice = false;  // until Append: it is computed, and sampled externally
  bool was_deferred = false;   // its last row had no token: the next row may have none either

  int32_t num_computed = 0;  // positions [0, num_computed) are in the KV cache
  int32_t num_planned = 0;   // [num_computed, num_planned) are in flight
  Flight flight;
  int32_t num_scored = 0;         // prompt positions whose score row has been accepted
  int32_t num_once_computed = 0;  // the largest num_computed that it lost
  RecomputeReason recompute_reason = RecomputeReason::kNone;
  // Available blocks when it was last refused admission: as many are not enough.
  int32_t refused_with_blocks = -1;
  StepId last_step = 0;  // the latest step it was ever part of
  StepId copied_in = 0;  // the latest step that copies a block for it
  SequenceUsage usage;
};

}  // namespace sluice
