// The loop's work in which scheduling meets I/O: takes requests, asks the scheduler for steps,
// sends them through the replica, applies what comes back, and hands tokens to clients. When the
// replica is lost it waits for the next incarnation and replays: prompt, tokens so far and seed are
// a sequence's whole state, so that it continues with the same bits.
//
// Lives on one event loop and is told the time: Engine drives it by the clock, tests and the
// simulator in virtual time. After anything has come, to it or to its replica and text streams,
// Advance() is due.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "orchestrator/draft_model/draft_model.h"
#include "orchestrator/drafts/speculation.h"
#include "orchestrator/engine/ledger.h"
#include "orchestrator/engine/observer.h"
#include "orchestrator/engine/request.h"
#include "orchestrator/engine/request_history.h"
#include "orchestrator/engine/request_table.h"
#include "orchestrator/engine/suspects.h"
#include "orchestrator/kv_events/kv_event_publisher.h"
#include "orchestrator/pipeline/replica.h"
#include "orchestrator/runner/model_runner.h"
#include "orchestrator/scheduler/scheduler.h"
#include "orchestrator/scheduler/tenants.h"
#include "orchestrator/text/text_streams.h"
#include "services/common/steady_time.h"

namespace sluice {

struct EngineOptions {
  // max_inflight_steps is set by the engine, as many as the replica has stages; and steps_ahead,
  // drafts and tenants.
  SchedulerOptions scheduler;
  // A step that takes longer, and several times what steps like it have taken, means that the
  // replica hangs: it is wired anew.
  absl::Duration hang_timeout = absl::Seconds(2);
  // A request over which the replica was lost more often than this, in the end with no other under
  // way, is ended with INTERNAL: it is the cause.
  int max_losses = 3;
  // How long a client may leave unread as much as may wait for it before its request ends.
  absl::Duration unread_timeout = absl::Minutes(1);
  // Processor time outside of steps that a request may take over its life: chat template,
  // tokenizing, compiling its constraint, and masks.
  absl::Duration max_request_work = absl::Seconds(30);
  // How often the books are checked, at times when nothing is computed.
  absl::Duration integrity_interval = absl::Seconds(10);
  SpeculationOptions speculation;
  // Of a draft model, where there is one: the context that it has, and its rope_length_class. The
  // rest of its options follow from those above.
  int32_t draft_max_positions = 0;
  std::function<int32_t(int32_t length)> draft_rope_length_class;
  // Of the tokenizer that texts come from; empty: any (services/messages/expected_tokenizer.h).
  std::string tokenizer_digest;
  EngineObserver* observer = nullptr;  // borrowed; null: nobody measures
  // Of the served model's cache. Borrowed; null: nothing is published.
  KvEventPublisher* kv_events = nullptr;
  // Called when steps can complete again or no longer can, on the loop.
  std::function<void(bool serving)> on_serving_changed;
  // How long requests wait while the replica is lost, or, at an orchestrator that has never had
  // one, belongs to the orchestrator that it succeeds. Zero: that one's requests end at once, so
  // that clients go on at the other; those of a lost replica wait all the same.
  absl::Duration hold_time = absl::ZeroDuration();
  // Called when it begins or ceases to hold requests so, on the loop.
  std::function<void(bool holding)> on_holding_changed;
};

struct EngineStatus {
  // The models being served, the target first. Never empty.
  std::vector<RunnerStatus> runners = std::vector<RunnerStatus>(1);
  int32_t num_unadmitted_requests = 0;  // waiting for the target's first incarnation
  uint64_t num_generated_tokens = 0;
  uint64_t num_proposed_tokens = 0;  // by a draft model
  uint64_t num_integrity_checks = 0;
  uint64_t num_integrity_faults = 0;  // checks that found something wrong
  // Estimated queueing delay of a new tenant's request; nothing while that is not known.
  std::optional<absl::Duration> estimated_wait;

  const RunnerStatus& target() const { return runners.front(); }
  // Null where no model drafts.
  const RunnerStatus* draft() const;
};

class EngineCore final : private ModelRunner::Owner {
 public:
  // `replica`, `text` (null for a model without a tokenizer) and `draft_replica` (null where no
  // model drafts) are borrowed.
  EngineCore(EngineOptions options, Replica* replica, TextStreams* text,
             Replica* draft_replica = nullptr);

  // As Engine's; `id` is new.
  void Submit(RequestId id, EngineRequest request, std::shared_ptr<RequestSink> sink);
  void Cancel(RequestId id);
  // Work of the tenant's was done outside of steps: it counts in its share. Of no account before the
  // first incarnation of the replica, when nothing is shared.
  void BillWork(const std::string& tenant, absl::Duration work);
  void SetBackpressured(RequestId id, bool backpressured) {
    requests_.SetBackpressured(id, backpressured);
  }
  LedgerReport Report(const LedgerQuery& query, SteadyTime now) const;

  // Does what has come due. Returns when to be called again even if nothing comes.
  SteadyTime Advance(SteadyTime now);

  // Ends every request with UNAVAILABLE.
  void Shutdown();

  EngineStatus status() const;
  // Null before the first incarnation of the replica says how many blocks there are.
  const Scheduler* scheduler() const { return runner_.scheduler(); }
  // Null where no model drafts.
  const DraftModel* draft_model() const { return draft_model_.get(); }

 private:
  // ModelRunner::Owner, of the served model.
  void DescribeRows(const Step& step, std::vector<RowRequest>& rows) override;
  void OnExecuted(const StepSample& sample) override;
  void OnMaskWork(SequenceId sequence, absl::Duration work) override;
  void OnCommitted(StepOutcome outcome, std::vector<RowResult> rows) override;
  bool HeldBackSince(SteadyTime since) const override;
  void OnChanged(const std::string& change) override;
  void OnResized(const KvGeometry& geometry, int32_t num_blocks_before,
                 absl::Span<const SequenceId> too_large) override;
  void OnReady() override;
  void OnLost(const absl::Status& status, absl::Span<const SequenceId> in_flight,
              SteadyTime now) override;
  void OnStandby(const absl::Status& status, SteadyTime now) override;

  RunnerOptions OptionsOfRunner(const Topology& topology);
  // The request's prompt will be in the cache.
  void PublishPrompt(const EngineRequest& request);
  EngineLoad LoadNow() const;
  std::unique_ptr<DraftModel> MakeDraftModel(Replica* replica);
  // Whether requests that come now wait for a replica that is expected.
  bool Holds(SteadyTime now) const;
  void TellHolding(SteadyTime now);
  void SendSteps(SteadyTime now);
  void SendTargetSteps(SteadyTime now);
  // Lets the scheduler plan what suspicions allow. False: what is under way must end first.
  bool ApplyQuarantine();
  // Tells requests what committed steps have brought.
  void TellRequests();
  // The requests of these sequences, each once.
  std::vector<RequestId> OwnersOf(absl::Span<const SequenceId> sequences);
  void RecordEnded();
  // Looks whether the books of blocks and sequences are right, where there is time for that.
  void CheckIntegrity(SteadyTime now);
  bool IntegrityIsDue() const;
  void TellServing();
  void ExpireDeadlines(SteadyTime now);
  // When requests with that deadline are ended.
  absl::Duration NoticeBeforeDeadline() const;
  // UNAVAILABLE naming the first process that is not ready, and why.
  absl::Status NotReady() const;

  const EngineOptions options_;
  Tenants tenants_{options_.scheduler.tenant_policies};  // outlives every scheduler
  TextStreams* const text_;
  RequestTable requests_;
  Speculation speculation_;
  ModelRunner runner_;
  const std::unique_ptr<DraftModel> draft_model_;
  Suspects suspects_;
  std::optional<RequestId> running_alone_;
  absl::Status standby_;  // what requests are told while another orchestrator has the stages
  bool holding_ = false;  // as last told
  // Since when and until when, as far as is known, another has had them; and since when the replica
  // has been lost. Nothing where that is not so.
  std::optional<SteadyTime> taken_since_, last_taken_, lost_since_;
  RequestHistory history_;
  SteadyTime next_integrity_check_;
  uint64_t num_steps_checked_ = 0;  // those after which the books were checked
  uint64_t num_integrity_checks_ = 0;
  uint64_t num_integrity_faults_ = 0;
};

}  // namespace sluice
