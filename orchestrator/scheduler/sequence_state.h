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

// A sequence's place in line, kept from Add to the end. The smaller one goes first.
struct PlaceInLine {
  int64_t negated_priority = 0;
  uint64_t arrival = 0;  // forks have that of the sequence they come from
  uint64_t serial = 0;   // no two sequences ever have the same

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 takes the default for a literal 0
  friend auto operator<=>(const PlaceInLine&, const PlaceInLine&) = default;
};

// Why a sequence had to begin again.
enum class ThrownBackBy { kNobody, kPreemption, kLoss, kGrowth, kPause };

struct Tenant;

struct SequenceState {
  SequenceState(SequenceSpec spec, const PlaceInLine& place);

  int32_t num_tokens() const { return static_cast<int32_t>(tokens.size()); }
  int32_t num_prompt() const { return usage.prompt_tokens; }
  // Its tokens and those that steps in flight choose.
  int32_t length() const { return num_tokens() + num_promised; }
  // Of them, those whose positions no step has computed or computes.
  int32_t num_pending() const { return length() - num_planned; }

  // Appends the rows that positions [first, first + num_positions) owe.
  void AddRowsFor(int32_t first, int32_t num_positions, Rows& rows) const;

  // In no line: nothing of it is to be computed before somebody says so.
  bool parked() const { return !running && (paused || awaits_choice); }

  // The reason to end now, if there is one.
  std::optional<FinishReason> ReasonToEnd() const;

  SequenceSpec spec;  // its token vectors have moved into `tokens`
  const PlaceInLine place;
  const absl::flat_hash_set<TokenId> stop_tokens;
  Tenant* tenant = nullptr;  // set once, when it gets in line
  // The serial of the sequence that spec.prompt_of named, to tell it from a later one with its
  // id; empty where blocks are not shared.
  std::optional<uint64_t> sibling_serial;
  std::vector<TokenId> tokens;    // prompt, then generated
  int32_t num_computed = 0;       // positions [0, num_computed) are in the KV cache
  int32_t num_planned = 0;        // [num_computed, num_planned) are in flight
  int32_t num_promised = 0;       // tokens that steps in flight choose, at most
  int32_t num_drafts = 0;         // of them, those that count only where drafts are right
  ChosenBy last_promise;          // the last of them
  int32_t num_scored = 0;         // prompt positions whose score row has been accepted
  int32_t num_once_computed = 0;  // the largest num_computed it was thrown back from
  ThrownBackBy thrown_back_by = ThrownBackBy::kNobody;
  // Blocks that were available when it was last refused admission; fewer won't do.
  int32_t refused_with_blocks = -1;
  bool running = false;
  bool paused = false;         // gets into no step; holds no blocks once none is under way
  bool sits_out = false;       // gets into no step until Scheduler::Return; keeps its blocks
  bool was_deferred = false;   // its last row had no token yet: the next one may have none either
  bool awaits_choice = false;  // all it has is computed, and its next token is chosen outside
  int32_t num_in_flight = 0;   // steps in flight that it is part of
  StepId last_step = 0;        // the latest step it was ever part of
  StepId copied_in = 0;        // the latest step that copies a block for it
  SequenceUsage usage;
};

}  // namespace sluice
