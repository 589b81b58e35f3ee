#include "orchestrator/runner/model_runner.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/process/log.h"

namespace sluice {

const char* NameOf(RunnerRole role) {
  switch (role) {
    case RunnerRole::kTarget:
      return "target";
    case RunnerRole::kDraft:
      return "draft";
  }
  return "?";
}

std::string ServiceName(RunnerRole role, const std::string& service) {
  return role == RunnerRole::kTarget ? service : absl::StrCat(NameOf(role), "-", service);
}

ModelRunner::ModelRunner(const RunnerOptions& options, Replica* replica, Owner* owner)
    : options_(options), replica_(replica), owner_(owner), step_times_(options.hang_timeout) {}

void ModelRunner::Advance(SteadyTime now) {
  replica_->Advance(now);
  for (ReplicaEvent& event : replica_->TakeEvents()) {
    if (auto* executed = std::get_if<StepExecuted>(&event)) {
      On(*executed, now);
    } else if (const auto* ready = std::get_if<ReplicaReady>(&event)) {
      On(*ready);
    } else if (const auto* taken = std::get_if<ReplicaStandby>(&event)) {
      owner_->OnStandby(taken->status, now);
    } else {
      On(std::get<ReplicaLost>(event), now);
    }
  }
  if (!failed_ && !in_flight_.empty()) CheckHang(now);
  ReturnDue(now);
}

SteadyTime ModelRunner::NextWake() const {
  if (failed_) return SteadyTime();
  SteadyTime wake = replica_->NextWake();
  if (!in_flight_.empty()) {
    wake = std::min(wake, in_flight_.front().sent + in_flight_.front().bound);
  }
  return returns_.empty() ? wake : std::min(wake, returns_.begin()->first);
}

void ModelRunner::CheckHang(SteadyTime now) {
  const StepInFlight& step = in_flight_.front();
  if (now < step.sent + step.bound) return;
  step_times_.OnHang();
  ++num_hangs_;
  FailReplica(absl::DeadlineExceededError(absl::StrCat(
      "step ", step.id, " did not complete within ", absl::FormatDuration(step.bound))));
}

void ModelRunner::FailReplica(const absl::Status& status) {
  failed_ = true;
  replica_->MarkFailed(status);
}

RunnerStatus ModelRunner::status() const {
  return {.role = options_.role,
          .ready = ready_,
          .epoch = epoch_,
          .scheduler = scheduler_.has_value() ? scheduler_->statistics() : SchedulerStatistics{},
          .num_steps = num_steps_,
          .num_hangs = num_hangs_,
          .num_recoveries = num_recoveries_,
          .num_recoveries_with_blocks = num_recoveries_with_blocks_,
          .processes = replica_->processes()};
}

// ---- Steps ----

void ModelRunner::SendSteps(SteadyTime now) {
  if (!CanSend()) return;
  while (const std::optional<Step> step = scheduler_->Plan()) Send(*step, now);
}

void ModelRunner::Send(const Step& step, SteadyTime now) {
  const bool ahead = !in_flight_.empty();
  StepInFlight& sent = in_flight_.emplace_back();
  sent.id = step.id;
  sent.num_positions = step.num_tokens();
  sent.sent = now;
  sent.ahead = ahead;
  sent.after_idle = step.after_idle;
  int32_t num_positions = 0;
  for (const StepInFlight& other : in_flight_) num_positions += other.num_positions;
  sent.bound = step_times_.Bound(num_positions);
  sent.sequences.reserve(step.segments.size());
  for (const Segment& segment : step.segments) sent.sequences.push_back(segment.sequence);
  rows_.clear();
  owner_->DescribeRows(step, rows_);
  sent.num_rows = rows_.size();
  for (size_t row = 0; row < rows_.size(); ++row) {
    if (rows_[row].constraint == nullptr) continue;
    sent.masked.emplace_back(static_cast<int32_t>(row), rows_[row].sequence);
  }
  replica_->Execute(step, rows_);
}

void ModelRunner::On(StepExecuted& executed, SteadyTime now) {
  if (failed_) return;
  if (const absl::Status status = Commit(executed, now); !status.ok()) FailReplica(status);
}

// An error: the replica did not answer as it should, and nothing it says counts any more.
absl::Status ModelRunner::Commit(StepExecuted& executed, SteadyTime now) {
  std::vector<RowResult>& rows = executed.rows;
  if (in_flight_.empty() || in_flight_.front().id != executed.step ||
      in_flight_.front().num_rows != rows.size()) {
    return absl::InternalError(absl::StrCat("the sampler answered step ", executed.step, " with ",
                                            rows.size(), " rows, out of turn"));
  }
  const StepInFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  Measure(step, now);
  for (const auto& [row, sequence] : step.masked) {
    if (rows[row].work > absl::ZeroDuration()) owner_->OnMaskWork(sequence, rows[row].work);
  }
  std::vector<TokenId> tokens;
  tokens.reserve(rows.size());
  std::vector<int32_t> deferred;
  for (const RowResult& row : rows) {
    if (row.deferred) deferred.push_back(static_cast<int32_t>(tokens.size()));
    tokens.push_back(row.token);
  }
  absl::StatusOr<StepOutcome> outcome = scheduler_->Commit(step.id, tokens, deferred);
  if (!outcome.ok()) return outcome.status();
  ++num_steps_;
  if (!pauses_.empty()) {
    for (const AcceptedRow& accepted : outcome->rows) pauses_.erase(accepted.sequence);
  }
  SitOut(outcome->deferred, now);
  owner_->OnCommitted(*std::move(outcome), std::move(rows));
  return absl::OkStatus();
}

void ModelRunner::Measure(const StepInFlight& step, SteadyTime now) {
  const StepSample sample = SampleOf(step, now);
  last_end_ = now;
  step_times_.Observe(sample);
  scheduler_->SetStepCost(step_times_.Price());
  owner_->OnExecuted(sample);
}

StepSample ModelRunner::SampleOf(const StepInFlight& step, SteadyTime now) const {
  // A step that was sent ahead waited for the one before.
  const absl::Duration busy = now - std::max(step.sent, last_end_);
  const bool waited = step.ahead || owner_->HeldBackSince(last_end_);
  return {.positions = step.num_positions,
          .sequences = static_cast<int32_t>(step.sequences.size()),
          .rows = static_cast<int32_t>(step.num_rows),
          .latency = now - step.sent,
          .busy = busy,
          .cost = waited ? busy : std::min(now - last_end_, 2 * busy),
          .ahead = step.ahead,
          .after_idle = step.after_idle};
}

void ModelRunner::SitOut(absl::Span<const SequenceId> sequences, SteadyTime now) {
  // A row costs about a token: the pause grows with the wait, so that rows in vain stay few.
  constexpr absl::Duration kFirstPause = absl::Milliseconds(1);
  constexpr absl::Duration kLongestPause = absl::Milliseconds(50);
  constexpr size_t kManyPauses = 4096;
  if (pauses_.size() > kManyPauses) {
    absl::erase_if(pauses_, [this](const auto& pause) {
      return !scheduler_->Report(pause.first).ok();  // it has ended
    });
  }
  for (const SequenceId sequence : sequences) {
    absl::Duration& pause = pauses_[sequence];
    pause = std::clamp(2 * pause, kFirstPause, kLongestPause);
    returns_.emplace(now + pause, sequence);
  }
}

void ModelRunner::ReturnDue(SteadyTime now) {
  while (!returns_.empty() && returns_.begin()->first <= now) {
    const SequenceId sequence = returns_.begin()->second;
    returns_.erase(returns_.begin());
    scheduler_->Return(sequence);
  }
}

// ---- What becomes of the replica ----

// How many stages and ranks there are makes no difference: each value counts once.
PrefixKey ModelRunner::ModelKeyFor(int32_t block_size) const {
  std::set<std::string> weights, arithmetic;
  for (const ReplicaProcess& process : *replica_->processes()) {
    if (!process.weights_digest.empty()) weights.insert(process.weights_digest);
    if (process.role == Role::kShard) arithmetic.insert(process.arithmetic);
  }
  return ModelKey({.configuration = options_.scheduler.model_fingerprint,
                   .weights = absl::StrJoin(weights, " "),
                   .arithmetic = absl::StrJoin(arithmetic, " "),
                   .block_size = block_size});
}

void ModelRunner::On(const ReplicaReady& ready) {
  const KvGeometry& geometry = ready.geometry;
  Log(LogLevel::kInfo, "orchestrator",
      options_.role == RunnerRole::kDraft ? "draft-model-ready" : "replica-ready",
      {{"epoch", ready.epoch},
       {"kv_blocks", geometry.num_blocks},
       {"block_size", geometry.block_size},
       {"state_slots", geometry.num_state_slots},
       {"kept_blocks", ready.kept_blocks ? "yes" : "no"}});
  epoch_ = ready.epoch;
  if (!ready.changed.empty()) {
    owner_->OnChanged(ready.changed);
    scheduler_.reset();
  }
  // What was computed stays where no shard was lost, and is computed again where one was: the lost
  // one's keys and values follow from what all stages before it compute.
  if (!scheduler_.has_value()) {
    scheduler_.emplace(options_.scheduler,
                       KvCacheOptions{.num_blocks = geometry.num_blocks,
                                      .block_size = geometry.block_size,
                                      .num_state_slots = geometry.num_state_slots,
                                      .model_key = ModelKeyFor(geometry.block_size),
                                      .recorder = options_.scheduler.kv_recorder});
  } else if (ready.kept_blocks) {
    scheduler_->AbandonSteps();
  } else if (const int32_t before = scheduler_->kv_cache().num_total_blocks();
             before == geometry.num_blocks &&
             scheduler_->kv_cache().num_total_states() == geometry.num_state_slots) {
    scheduler_->Reset();
  } else {
    owner_->OnResized(geometry, before,
                      scheduler_->ResetWithBlocks(geometry.num_blocks, geometry.num_state_slots));
  }
  num_recoveries_with_blocks_ += ready.kept_blocks ? 1 : 0;
  ready_ = true;
  owner_->OnReady();
}

void ModelRunner::On(const ReplicaLost& lost, SteadyTime now) {
  ready_ = failed_ = false;
  ++num_recoveries_;
  std::vector<SequenceId> in_flight;
  for (const StepInFlight& step : std::exchange(in_flight_, {})) {
    in_flight.insert(in_flight.end(), step.sequences.begin(), step.sequences.end());
  }
  owner_->OnLost(lost.status, in_flight, now);
}

}  // namespace sluice
