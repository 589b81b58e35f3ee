// What the caller says about a sequence, and what it hears when the sequence ends. Plain values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/kv_cache/kv_cache.h"
#include "orchestrator/kv_cache/types.h"

namespace sluice {

// One Generate call. The scheduler only carries it.
using RequestId = uint64_t;

struct SequenceSpec {
  SequenceId id = 0;
  RequestId request = 0;

  std::vector<TokenId> prompt;  // at least one

  // Tokens generated earlier, for a client that goes on after losing its orchestrator. They count
  // as generated: max_new_tokens includes them.
  std::vector<TokenId> resumed_tokens;

  // At least 1; 0 is for score_prompt alone and ends the sequence with its prompt.
  int32_t max_new_tokens = 0;

  // Each ends the sequence and is part of its output. EOS ids are the caller's to add.
  std::vector<TokenId> stop_tokens;

  int32_t priority = 0;  // higher goes first; tenants share within one

  // Whom it is served for.
  std::string tenant;

  // Keys and values are shared only with sequences that have the same salt.
  std::string cache_salt;

  // False: it neither starts from what others have computed nor leaves its own to them; siblings
  // of its own request share all the same.
  bool use_prefix_cache = true;

  // Every prompt position but the last yields a kScore row for the prompt token after it, once.
  bool score_prompt = false;
  // Those of so many first positions are another's to score: they may be found in the cache.
  int32_t scored_elsewhere = 0;

  // The longest draft that may be computed beside its last token; 0: it is not drafted on.
  int32_t max_drafts = 0;
  // What is expected to be generated, for who drafts; the scheduler only carries it.
  std::shared_ptr<const std::vector<TokenId>> expected_tokens;
  // Its tokens are chosen outside (beams): what a row of it chooses is told and not appended. It then
  // waits, keeping its blocks as long as nobody needs them, for Scheduler::Append.
  bool chosen_outside = false;

  // A sequence with the same prompt, to be forked off once it is computed (n > 1). This one is held
  // back until that one has computed the prompt. If that one is gone or comes later in line, or if
  // this one scores its prompt and thus needs every position's row, it computes the prompt itself.
  std::optional<SequenceId> prompt_of;
};

enum class FinishReason {
  kStop,       // a stop token, or what the caller holds for one (a stop string)
  kLength,     // max_new_tokens
  kCancelled,  // the client went away or took it back
  kFailed,     // it can't go on: its deadline has passed, or what computes it fails
};

const char* FinishReasonName(FinishReason reason);  // "stop", "length", ...

// A sequence that goes on from where another was. Everything that the spec of `from` says holds for
// it too, but that it scores nothing.
struct ForkSpec {
  SequenceId from = 0;
  SequenceId to = 0;
  int32_t num_tokens = 0;             // of `from`: at least its prompt, at most all it has
  std::vector<TokenId> continuation;  // what comes after them instead; counts as generated
};

// Why positions are computed again.
struct RecomputedPositions {
  int64_t after_preemption = 0;  // another sequence needed the blocks
  int64_t after_loss = 0;        // the replica lost its blocks
  int64_t after_growth = 0;      // from its length on all keys are turned otherwise
  int64_t after_pause = 0;       // it was paused meanwhile

  RecomputedPositions& operator+=(const RecomputedPositions& other);
};

// What a sequence has used so far.
struct SequenceUsage {
  int32_t prompt_tokens = 0;
  int32_t generated_tokens = 0;      // resumed ones included
  int64_t computed_positions = 0;    // by committed steps; recomputed positions count again
  int64_t shared_positions = 0;      // taken over where it was forked off
  int64_t cached_positions = 0;      // found by their tokens instead of computed
  int32_t cached_prompt_tokens = 0;  // of its prompt, found when it first began
  RecomputedPositions recomputed;
  int32_t copied_blocks = 0;    // because others go on with the original
  int32_t evicted_blocks = 0;   // cached ones that gave way to it
  int32_t preemptions = 0;      // times it gave its blocks to another sequence
  int64_t drafted_tokens = 0;   // by committed steps
  int64_t accepted_drafts = 0;  // of them, those that were right
};

enum class SequencePhase { kWaiting, kRunning, kPaused };

// How a living sequence is.
struct SequenceReport {
  SequencePhase phase = SequencePhase::kWaiting;
  SequenceUsage usage;
  SequenceBlocks blocks;
};

struct FinishedSequence {
  SequenceId sequence = 0;
  RequestId request = 0;
  FinishReason reason = FinishReason::kStop;
  SequenceUsage usage;
};

// The reason for which a sequence needs no step at all: its resumed tokens end with a stop token or
// are max_new_tokens already. Scheduler::Add refuses such a sequence.
std::optional<FinishReason> AlreadyFinished(const SequenceSpec& spec);

}  // namespace sluice
