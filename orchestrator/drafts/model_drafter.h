// A second, smaller model that drafts, as Speculation sees it: it follows sequences, and proposes on
// when it is told to, which takes it a step for every token. orchestrator/draft_model has the real
// one.
//
// Lives on the engine's loop. What it is told to do is sent on its way by that loop, never from
// within a call.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "orchestrator/drafts/drafter.h"
#include "orchestrator/scheduler/sequence.h"
#include "orchestrator/step_time/step_time_model.h"

namespace sluice {

class ModelDrafter {
 public:
  virtual ~ModelDrafter() = default;

  // As DraftSource's. What was being proposed behind fewer tokens is no longer asked for.
  virtual void OnTokens(const SequenceSpec& spec, int32_t num_prompt,
                        absl::Span<const TokenId> tokens) = 0;
  virtual void OnEnd(SequenceId sequence) = 0;

  // It has computed all but the last few of the sequence's tokens, and nothing of it is under way:
  // Begin would take about as many short steps as tokens.
  virtual bool IsClose(SequenceId sequence) const = 0;
  // Computes what lacks for that, unless that is under way or there is no room.
  virtual void CatchUp(SequenceId sequence) = 0;

  // Begins to propose `length` tokens behind those that the sequence has. False where it is not
  // close.
  virtual bool Begin(SequenceId sequence, int32_t length) = 0;
  // More is to come of what Begin asked for.
  virtual bool IsAtWork(SequenceId sequence) const = 0;
  // Something of it is under way, whether Begin asked for it or CatchUp.
  virtual bool IsComputing(SequenceId sequence) const = 0;
  // What it has proposed behind the tokens that the sequence has. Valid until the next call.
  virtual absl::Span<const DraftToken> ProposalOf(SequenceId sequence) const = 0;

  // What its steps take.
  virtual const StepTimeModel& step_times() const = 0;
};

}  // namespace sluice
