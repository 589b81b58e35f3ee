// The source of the scheduler's drafts: tokens that a sequence may continue with, proposed before
// the model has chosen. A draft is right or wrong and changes no token; it costs a row in the step,
// and saves a step where it is right.
//
// Called by the scheduler, on its thread. The same calls give the same answers.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "orchestrator/scheduler/sequence.h"
#include "orchestrator/scheduler/step.h"

namespace sluice {

// A sequence that is about to be computed from its last token on.
struct DraftCandidate {
  SequenceId sequence = 0;
  absl::Span<const TokenId> tokens;  // all it has
  int32_t most = 0;                  // tokens that its draft may have, at least 1
  Tokens draft;  // what Draft proposes; stop tokens and what follows are cut off
};

// What a step has room for.
struct DraftRoom {
  int32_t num_decodes = 0;      // sequences that it computes a token of, the candidates included
  int32_t tokens = 0;           // of all drafts together
  bool beside_prompts = false;  // it computes prompts as well, or could
};

class DraftSource {
 public:
  virtual ~DraftSource() = default;

  // The model chose tokens of a sequence with max_drafts > 0. `tokens` are all it has now: those of
  // the last call and new ones behind them, the first `num_prompt` of them its prompt. Borrowed for
  // the call. The token vectors of `spec` are empty.
  virtual void OnTokens(const SequenceSpec& spec, int32_t num_prompt,
                        absl::Span<const TokenId> tokens) = 0;
  virtual void OnEnd(SequenceId sequence, absl::Span<const TokenId> tokens) = 0;

  // Whether sequences wait until their last token is known, so that they can be drafted on, instead
  // of being planned ahead of it: all of the `num_running`, or this one.
  virtual bool AllWait(int32_t num_running) = 0;
  virtual bool Waits(SequenceId sequence) = 0;

  // Whether a draft of the sequence, which has `num_tokens` and could be computed now, is on its
  // way and worth waiting for: the sequence is not planned yet. Asked only while AllWait is true;
  // the engine plans again when the answer may have changed.
  virtual bool Holds(SequenceId /*sequence*/, int32_t /*num_tokens*/) { return false; }

  // Proposes 0 to `most` tokens for each candidate.
  virtual void Draft(const DraftRoom& room, absl::Span<DraftCandidate> candidates) = 0;
};

}  // namespace sluice
