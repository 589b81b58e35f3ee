// A second, smaller model that drafts for the one that is served: a ModelRunner of its own. Every
// sequence that it is asked for has one here, whose tokens are chosen outside (Scheduler): a draft
// is a few of these choices, taken one by one; what the served model did not choose is dropped by
// forking the sequence off where both agree. The copies of blocks, the chunks of prompts, prefixes
// computed before and preemption are the scheduler's, as for any other replica.
//
// Its rows are drawn with the options and random numbers of the sequence that they are drafted for,
// at the same position, so that where both models think alike they choose alike at any temperature.
//
// Nobody depends on it. A sequence for which there are no blocks has no draft; when the replica is
// lost, no sequence waits for it, and its state is recomputed on demand.
//
// Lives on the engine's loop, and is told the time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "orchestrator/draft_model/followed_text.h"
#include "orchestrator/drafts/model_drafter.h"
#include "orchestrator/pipeline/replica.h"
#include "orchestrator/runner/model_runner.h"
#include "orchestrator/scheduler/scheduler.h"
#include "services/common/steady_time.h"

namespace sluice {

struct DraftModelOptions {
  // max_positions and rope_length_class are of the draft model.
  SchedulerOptions scheduler;
  absl::Duration hang_timeout = absl::Seconds(2);  // as EngineOptions'
  // A sequence that was being computed when the replica was lost more often than this has no drafts
  // any more.
  int max_losses = 3;
};

// What the driver asks its owner, on the loop.
struct DraftModelOwner {
  // By what a token of the sequence is chosen: all of a row but its sequence, position and tokens.
  // What it points to outlives the call that asked. Nothing where the sequence is gone.
  std::function<std::optional<RowRequest>(SequenceId)> describe_row;
  // Whether one more token behind these is worth a step.
  std::function<bool(SequenceId, absl::Span<const DraftToken>)> goes_on;
};

class DraftModel final : public ModelDrafter, private ModelRunner::Owner {
 public:
  // Borrows the replica.
  DraftModel(const DraftModelOptions& options, Replica* replica, DraftModelOwner owner);

  // ModelDrafter.
  void OnTokens(const SequenceSpec& spec, int32_t num_prompt,
                absl::Span<const TokenId> tokens) override;
  void OnEnd(SequenceId sequence) override;
  bool IsClose(SequenceId sequence) const override;
  void CatchUp(SequenceId sequence) override;
  bool Begin(SequenceId sequence, int32_t length) override;
  bool IsAtWork(SequenceId sequence) const override;
  bool IsComputing(SequenceId sequence) const override;
  absl::Span<const DraftToken> ProposalOf(SequenceId sequence) const override;
  const StepTimeModel& step_times() const override { return runner_.step_times(); }

  // Applies what has come. SendSteps() is due after it, and after anything that asked for work.
  void Advance(SteadyTime now) { runner_.Advance(now); }
  void SendSteps(SteadyTime now) { runner_.SendSteps(now); }
  SteadyTime NextWake() const { return runner_.NextWake(); }

  RunnerStatus status() const { return runner_.status(); }
  uint64_t num_proposed_tokens() const { return num_proposed_; }
  // OK, or INTERNAL: as Scheduler's, and between it and what is known of sequences here.
  absl::Status CheckIntegrity() const;

 private:
  // A sequence of the served model.
  struct Followed {
    SequenceId id = 0;       // of the sequence here that computes for it; 0: none
    bool computing = false;  // its row has not come yet
    bool barred = false;     // it has no drafts any more
    int32_t wanted = 0;      // tokens to propose; 0: none requested
    int num_losses = 0;
    FollowedText text;
    // What a sequence here is made with.
    int32_t end = 0;  // tokens that it has at most
    std::string cache_salt;
    bool use_prefix_cache = true;
  };
  Followed* Find(SequenceId sequence);
  const Followed* Find(SequenceId sequence) const;
  bool HoldsBlocks(const Followed& followed) const;
  bool HasRoom(int32_t num_tokens) const;
  // Each ends with its row under way, or with the sequence dropped.
  void Start(SequenceId sequence, Followed& followed);
  void CatchUp(SequenceId sequence, Followed& followed);
  void TakeChoice(Followed& followed);
  void Drop(Followed& followed);
  void GoOn(SequenceId sequence, Followed& followed);

  void DropAll();
  void OnRow(SequenceId id, const RowResult& row);
  RowRequest RowFor(const Segment& segment) const;

  // ModelRunner::Owner.
  void DescribeRows(const Step& step, std::vector<RowRequest>& rows) override;
  void OnCommitted(StepOutcome outcome, std::vector<RowResult> rows) override;
  // It computes when it is asked to: the time between its steps is not its own.
  bool HeldBackSince(SteadyTime) const override { return true; }
  void OnChanged(const std::string&) override { DropAll(); }
  void OnResized(const KvGeometry&, int32_t, absl::Span<const SequenceId>) override { DropAll(); }
  void OnLost(const absl::Status& status, absl::Span<const SequenceId> in_flight,
              SteadyTime now) override;

  const DraftModelOptions options_;
  const DraftModelOwner owner_;
  ModelRunner runner_;
  absl::btree_map<SequenceId, Followed> followed_;         // by the sequence followed
  absl::flat_hash_map<SequenceId, SequenceId> followers_;  // from sequences here to those
  SequenceId next_id_ = 1;
  uint64_t num_proposed_ = 0;
};

}  // namespace sluice
