// Drafts for the scheduler: has drafters propose, holds what they proposed against what came, knows
// what steps take, and decides how much is computed beside the tokens that are wanted. It stops by
// itself where drafts are wrong or rows have their price, and goes on proposing without computing,
// to see when they would be right. With DraftPolicy::kAlways it decides nothing: the likeliest proposal
// is computed, as far as there is room.
//
// Lives on the engine's loop. A function of what it is told: tokens, forced tokens, times of steps.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "orchestrator/drafts/chances.h"
#include "orchestrator/drafts/draft_mode.h"
#include "orchestrator/drafts/draft_policy.h"
#include "orchestrator/drafts/drafter.h"
#include "orchestrator/drafts/model_rounds.h"
#include "orchestrator/drafts/shared_ngrams.h"
#include "orchestrator/scheduler/draft_source.h"
#include "orchestrator/step_time/step_time_model.h"

namespace sluice {

struct SpeculationOptions {
  DraftMode mode = DraftMode::kNgram;
  DraftPolicy policy = DraftPolicy::kMeasured;
};

class Speculation final : public DraftSource {
 public:
  explicit Speculation(const SpeculationOptions& options)
      : options_(options), rounds_(options.policy) {}

  // DraftSource.
  void OnTokens(const SequenceSpec& spec, int32_t num_prompt,
                absl::Span<const TokenId> tokens) override;
  void OnEnd(SequenceId sequence, absl::Span<const TokenId> tokens) override;
  bool AllWait(int32_t num_running) override;
  bool Waits(SequenceId sequence) override;
  bool Holds(SequenceId sequence, int32_t num_tokens) override {
    return rounds_.Holds(sequence, num_tokens);
  }
  void Draft(const DraftRoom& room, absl::Span<DraftCandidate> candidates) override;

  // `tokens` must follow the first `position` tokens of the sequence: no others are allowed.
  void OnForced(SequenceId sequence, int32_t position, std::vector<TokenId> tokens);
  // The text behind the first `position` tokens of the sequence, which are all that it has, must be
  // that of `tokens`, or begin with it: they are a guess at how it is written.
  void OnLikely(SequenceId sequence, int32_t position, absl::Span<const TokenId> tokens);
  // A step was executed whose cost goes by its rows (StepSample).
  void OnStep();
  // What steps of the served model take. Borrowed; REQUIRES: set before any step.
  void UseSteps(const StepTimeModel* steps) { steps_ = steps; }

  // Of a draft model, where there is one. Borrows it.
  void UseModel(ModelDrafter* model) { rounds_.UseModel(model); }
  // The time, as what a steady clock has run; and when somebody has waited long enough for a draft.
  void SetTime(absl::Duration now) { rounds_.SetTime(now); }
  absl::Duration NextTimeout() const { return rounds_.NextTimeout(); }
  // Steps were held back at that time or later.
  bool WaitedSince(absl::Duration time) const { return rounds_.WaitedSince(time); }
  // One more token behind those that the model has proposed for the sequence is worth a step of it.
  bool GoesOn(SequenceId sequence, absl::Span<const DraftToken> proposal) const;

 private:
  // One reason for tokens, and what may follow for it.
  struct Source {
    std::unique_ptr<Drafter> drafter;
    std::vector<DraftToken> proposal;
  };
  // A sequence that is drafted on.
  struct State {
    std::vector<Source> sources;
    std::shared_ptr<SharedText> shared;  // that it adds to; null: none
    Chances chances;
    int32_t max_drafts = 0;
    int32_t num_tokens = 0;
    // Of the proposals behind its first num_tokens tokens, that from which most is expected.
    std::vector<DraftToken> proposal;
    std::vector<DraftToken> likely;  // as last told; empty: nothing behind its last token
    // What must follow its first forced_at tokens.
    int32_t forced_at = 0;
    std::vector<TokenId> forced;
    int64_t latest = 0;  // step in which it had tokens
  };
  // What a step may compute beside what is forced.
  struct Guess {
    DraftCandidate* candidate = nullptr;
    const State* state = nullptr;
  };

  State& StateOf(const SequenceSpec& spec, int32_t num_prompt);
  // Holds what was proposed against what came.
  void Judge(State& state, absl::Span<const TokenId> came);
  void Judge(State& state, absl::Span<const DraftToken> proposal, absl::Span<const TokenId> came);
  void JudgeOne(State& state, const DraftToken& proposed, bool right);
  void JudgeModel(State& state, absl::Span<const DraftToken> proposal,
                  absl::Span<const TokenId> came);
  void Propose(State& state, absl::Span<const TokenId> tokens);
  // Takes what the model proposes where more is expected of it.
  static void Consider(State& state, absl::Span<const DraftToken> proposal);
  // Of its forced tokens, those behind the ones that it has.
  static absl::Span<const TokenId> ForcedOf(const State& state, int32_t num_tokens);
  // That the first tokens of its proposal are all right, up to `most`.
  static std::vector<double> ChancesOf(const State& state, int32_t most);
  // Tokens expected to be right.
  static double ExpectedOf(const State& state, absl::Span<const DraftToken> proposal);
  void Forget(State& state);  // what was forced
  // Even if every draft were right it would not pay.
  bool IsHopeless(int32_t num_decodes) const;
  bool always() const { return options_.policy == DraftPolicy::kAlways; }
  bool DecideToWait(int32_t num_running);
  // Takes its forced tokens, as many as there is room for, from `left`. False: it has none.
  static bool DraftForced(const State& state, DraftCandidate& candidate, int32_t& left);
  // How much of each guess to compute, of all at most `most` tokens: what pays, or what there is.
  std::vector<int32_t> PayingLengths(int32_t num_decodes, absl::Span<const Guess> guesses,
                                     int32_t most) const;
  static std::vector<int32_t> FullLengths(absl::Span<const Guess> guesses, int32_t most);
  // Tokens per second with what is proposed; 0 where that is nothing.
  double RateOfProposals(int32_t num_running) const;
  std::vector<RoundCandidate> CandidatesOfRound() const;
  bool IsAtWork(const State& state) const;

  const SpeculationOptions options_;
  absl::node_hash_map<SequenceId, State> states_;
  SharedNgrams shared_;
  ModelRounds rounds_;
  Chances chances_;  // of all sequences; new ones begin with them
  const StepTimeModel* steps_ = nullptr;
  int64_t num_steps_ = 0;
  int64_t num_forced_ = 0;     // sequences that know of forced tokens
  bool hopeless_ = false;      // as was found of late: nothing need be proposed
  std::optional<bool> waits_;  // as decided since the last step
};

}  // namespace sluice
