// A sequence as the scheduler's caller describes it, and what is reported of it. Plain values.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/kv_cache/kv_cache.h"
#include "orchestrator/kv_cache/types.h"

namespace sluice {

// One Generate call. The scheduler only carries it.
using RequestId = uint64_t;

// SequenceSpec::second_type_from of a sequence whose tokens all have type 0.
inline constexpr int32_t kNoSecondType = std::numeric_limits<int32_t>::max();

// Positions of a prompt that an embedding is made of.
enum class PooledRows : uint8_t { kNone, kFirst, kLast, kAll };

// Where a text begins behind a source of so many positions: at a new block.
inline constexpr int32_t kSourceUnit = 16;
constexpr int32_t FilledSource(int32_t source_positions) {
  return (source_positions + kSourceUnit - 1) / kSourceUnit * kSourceUnit;
}

struct SequenceSpec {
  SequenceId id = 0;
  RequestId request = 0;

  std::vector<TokenId> prompt;  // at least one

  // Tokens generated earlier, for a client that continues after losing its orchestrator. They count
  // as generated: max_new_tokens includes them.
  std::vector<TokenId> resumed_tokens;

  // At least 1; 0 is for score_prompt and pooled alone and ends the sequence with its prompt.
  int32_t max_new_tokens = 0;

  // Each ends the sequence and is part of its output. EOS ids are the caller's to add.
  std::vector<TokenId> stop_tokens;

  int32_t priority = 0;  // higher ones are served first; tenants share within one

  // The tenant that it is served for.
  std::string tenant;

  // Keys and values are shared only with sequences that have the same salt.
  std::string cache_salt;

  // The adapter that it is computed with, by a name that stands for one content for as long as the
  // scheduler lives; empty: none. Keys and values are shared only with sequences of the same one.
  std::string adapter;

  // False: it neither uses blocks that other requests have computed nor lets them use its own.
  // Siblings of its own request share all the same.
  bool use_prefix_cache = true;

  // Every prompt position but the last yields a kScore row for the prompt token after it, once.
  bool score_prompt = false;
  // Of these, the first ones that another sequence scores: they may be found in the cache.
  int32_t num_positions_scored_by_sibling = 0;

  // The first position whose token is of type 1, in models with token types; those before are of type
  // 0. The scheduler only carries it.
  int32_t second_type_from = kNoSecondType;
  // Of encoder-decoders: its first positions are those of a source, which are computed in one piece and
  // shared only as a whole, and the text begins at FilledSource() of them. 0: it has none.
  int32_t source_positions = 0;
  // Its prompt yields kPool rows, these ones, for an embedding, and nothing is generated.
  PooledRows pooled = PooledRows::kNone;
  // It is computed in one step: each of its positions sees all others, or all its rows are pooled.
  // Needs max_new_tokens of 0 and no use_prefix_cache.
  bool in_one_piece = false;

  // The longest draft computed beside its last token; 0: nothing is drafted.
  int32_t max_drafts = 0;
  // The text that is expected, for the draft source; the scheduler only carries it.
  std::shared_ptr<const std::vector<TokenId>> expected_tokens;
  // The caller chooses its tokens (beams): what a row of it chooses is reported and not appended.
  // It then waits for Scheduler::Append, and keeps its blocks as long as no other sequence needs
  // them.
  bool externally_sampled = false;

  // A sequence with the same prompt, whose blocks this one shares (n > 1). This one waits until
  // that one has computed the prompt. If that one is gone or is served later, or if this one scores
  // its prompt and thus needs every position's row, this one computes the prompt itself.
  std::optional<SequenceId> prompt_of;
};

enum class FinishReason {
  kStop,       // a stop token, or what the caller treats as one (a stop string)
  kLength,     // max_new_tokens
  kCancelled,  // the client disconnected or cancelled
  kFailed,     // it cannot continue: its deadline has passed, or what computes it fails
};

const char* FinishReasonName(FinishReason reason);  // "stop", "length", ...

// A sequence that continues from a position of another one. It has the spec of `from`, except that
// it scores nothing.
struct ForkSpec {
  SequenceId from = 0;
  SequenceId to = 0;
  int32_t num_tokens = 0;             // of `from`: at least its prompt, at most all it has
  std::vector<TokenId> continuation;  // the tokens after these; they count as generated
};

// Why positions are computed again.
struct RecomputedPositions {
  int64_t after_preemption = 0;  // another sequence needed the blocks
  int64_t after_loss = 0;        // the replica lost its blocks
  int64_t after_growth = 0;      // it reached a length with other keys
  int64_t after_pause = 0;       // it was paused

  RecomputedPositions& operator+=(const RecomputedPositions& other);
};

// What a sequence has used so far.
struct SequenceUsage {
  int32_t prompt_tokens = 0;
  int32_t generated_tokens = 0;      // resumed ones included
  int64_t computed_positions = 0;    // by committed steps; recomputed positions count again
  int64_t shared_positions = 0;      // taken over from a sibling or by a fork
  int64_t cached_positions = 0;      // found by their tokens instead of computed
  int32_t cached_prompt_tokens = 0;  // of its prompt, found when it first began
  RecomputedPositions recomputed;
  int32_t copied_blocks = 0;    // because other sequences use the original
  int32_t evicted_blocks = 0;   // cached ones that were evicted for it
  int32_t preemptions = 0;      // times it gave its blocks to another sequence
  int64_t drafted_tokens = 0;   // by committed steps
  int64_t accepted_drafts = 0;  // of them, those that were right
};

enum class SequencePhase { kWaiting, kRunning, kPaused };

// A living sequence as it is now.
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
