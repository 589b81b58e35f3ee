// When a draft model is asked, for how many tokens, and how long sequences wait for them. In a
// round every sequence that is drafted on waits for tokens of the model, which takes a step of that
// model for each, and then they are computed together. A round is worth it where all that takes
// less time a token than going on without, by what steps of both models take and how often the
// draft model is right. Where it is not, one sequence is asked now and then, ever more rarely,
// because both change.
//
// Whoever is asked and does not answer in several times the time that this should take is not
// waited for: the sequence goes on without, and rounds rest for a while.
//
// With DraftPolicy::kAlways nothing of that is weighed: every sequence is asked for before every
// token, and waits while the model computes for it, catching up included.
//
// Lives on the engine's loop, and is told the time, as what a steady clock has run.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "orchestrator/drafts/chances.h"
#include "orchestrator/drafts/draft_lengths.h"
#include "orchestrator/drafts/draft_policy.h"
#include "orchestrator/drafts/model_drafter.h"

namespace sluice {

// A sequence that could be asked for.
struct RoundCandidate {
  SequenceId sequence = 0;
  double chance = 0;  // of a token of the model to be right, those before it being right
  int32_t most = 0;   // tokens of a draft, at least 1
};

class ModelRounds {
 public:
  // Longer ones win little, as with other guesses.
  static constexpr int32_t kMostTokens = 8;
  // With kAlways: nobody waits longer, say for a model that has lost the room for its sequence. One
  // that hangs is lost to its sequences sooner (hang_timeout).
  static constexpr absl::Duration kMostPatience = absl::Seconds(10);

  explicit ModelRounds(DraftPolicy policy = DraftPolicy::kMeasured) : policy_(policy) {}

  // Borrows the model; null: there is none, and no round ever.
  void UseModel(ModelDrafter* model) { model_ = model; }
  ModelDrafter* model() const { return model_; }

  void SetTime(absl::Duration now) { now_ = now; }
  // When a waiting sequence proceeds without a draft; infinite: none waits.
  absl::Duration NextTimeout() const;

  // A step of the served model has ended.
  void OnStep() { ++num_steps_; }
  void OnEnd(SequenceId sequence) { asked_.erase(sequence); }

  // Whether sequences are to wait for drafts: the next step is worth a round, or they do already.
  // `cost`, in seconds, of steps of the served model; `rate`, in tokens per second, is what is had
  // without a round. REQUIRES: the policy is kMeasured.
  bool Decide(int32_t num_decodes, absl::Span<const RoundCandidate> candidates,
              const CostOfRows& cost, double rate);
  // No new round; whether sequences wait for drafts of the last one.
  bool DecideAgainst();

  // The sequence, which has so many tokens, is to wait. Asks for its draft the first time.
  bool Holds(SequenceId sequence, int32_t num_tokens);

  // Somebody waited for a draft at that time or later.
  bool WaitedSince(absl::Duration time) const { return last_wait_ >= time; }

  // One more token behind this proposal is worth a step of the model.
  bool GoesOn(absl::Span<const DraftToken> proposal, const Chances& chances) const;

 private:
  struct Asked {
    int32_t num_tokens = 0;  // that it had
    absl::Duration until;    // waits no longer
    bool waits = false;
    bool begun = false;  // with kAlways: it was close, and proposes
  };
  struct Choice {
    int32_t length = 0;
    double rate = 0;
  };

  Choice BestLength(int32_t num_decodes, absl::Span<const RoundCandidate> candidates,
                    const CostOfRows& cost) const;
  std::vector<RoundCandidate> CloseOf(absl::Span<const RoundCandidate> candidates, bool are_wanted);
  bool HoldsAlways(SequenceId sequence, int32_t num_tokens);
  bool Waits(SequenceId sequence) const;
  bool AnyWaits() const;
  void PutOffProbe();
  absl::Duration Patience() const;
  bool knows_steps() const { return model_->step_times().knows_rows(); }
  // Seconds of a step of the draft model.
  double StepOf(int32_t rows) const { return model_->step_times().Expected(rows); }

  const DraftPolicy policy_;
  ModelDrafter* model_ = nullptr;
  absl::Duration now_;
  absl::Duration last_wait_ = -absl::InfiniteDuration();
  int64_t num_steps_ = 0;

  // The round that was decided on. length_ 0: none.
  int32_t length_ = 0;
  int32_t num_asked_ = 0;             // sequences
  double rate_ = 0;                   // tokens per second that it promises
  absl::Duration step_time_;          // of the served model, of late
  std::optional<SequenceId> probed_;  // set: it alone is asked

  // Rounds rest until the next probe has been answered in time.
  bool rests_ = false;
  int64_t next_probe_ = 0;
  int64_t probe_period_ = 0;
  absl::flat_hash_map<SequenceId, Asked> asked_;
};

}  // namespace sluice
