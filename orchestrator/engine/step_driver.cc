#include "orchestrator/engine/step_driver.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sluice {

StepDriver::StepDriver(absl::Duration hang_timeout, Replica* replica, RequestTable* requests,
                       Speculation* speculation, EngineObserver* observer)
    : replica_(replica),
      requests_(requests),
      speculation_(speculation),
      observer_(observer),
      times_(hang_timeout) {}

void StepDriver::SendSteps(Scheduler& scheduler, SteadyTime now) {
  if (!returns_.empty()) ReturnDue(scheduler, now);
  while (const std::optional<Step> step = scheduler.Plan()) Send(*step, now);
}

void StepDriver::Send(const Step& step, SteadyTime now) {
  const bool ahead = !in_flight_.empty();
  StepInFlight& sent = in_flight_.emplace_back();
  sent.id = step.id;
  sent.ahead = ahead;
  sent.after_idle = step.after_idle;
  sent.sent = now;
  sent.num_positions = step.num_tokens();
  int num_ahead = 0;
  for (const StepInFlight& other : in_flight_) num_ahead += other.num_positions;
  sent.bound = times_.Bound(num_ahead);
  sent.sequences.reserve(step.segments.size());
  for (const Segment& segment : step.segments) sent.sequences.push_back(segment.sequence);
  rows_.clear();
  requests_->OnSent(step, rows_);
  sent.num_rows = rows_.size();
  for (size_t row = 0; row < rows_.size(); ++row) {
    if (rows_[row].constraint == nullptr) continue;
    sent.constrained.emplace_back(static_cast<int32_t>(row), rows_[row].sequence);
  }
  replica_->Execute(step, rows_);
}

absl::Status StepDriver::Commit(Scheduler& scheduler, StepExecuted executed, SteadyTime now) {
  std::vector<RowResult>& rows = executed.rows;
  if (in_flight_.empty() || in_flight_.front().id != executed.step ||
      in_flight_.front().num_rows != rows.size()) {
    return absl::InternalError(absl::StrCat("the sampler answered step ", executed.step, " with ",
                                            rows.size(), " rows, out of turn"));
  }
  const StepInFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  Measure(step, scheduler, now);
  std::vector<TokenId> tokens;
  tokens.reserve(rows.size());
  std::vector<int32_t> deferred;
  for (const RowResult& row : rows) {
    if (row.deferred) deferred.push_back(static_cast<int32_t>(tokens.size()));
    tokens.push_back(row.token);
  }
  if (!step.constrained.empty()) CountWork(step, rows);
  absl::StatusOr<StepOutcome> outcome = scheduler.Commit(step.id, tokens, deferred);
  if (!outcome.ok()) return outcome.status();
  if (!pauses_.empty()) {
    for (const AcceptedRow& accepted : outcome->rows) pauses_.erase(accepted.sequence);
  }
  SitOut(outcome->deferred, now);
  ++num_steps_;
  requests_->AdvanceBeams(*outcome, rows);
  for (const AcceptedRow& accepted : outcome->rows) {
    RowResult& row = rows[accepted.row];
    const int32_t position = accepted.position + 1;
    if (!row.forced.empty()) {
      speculation_->OnForced(accepted.sequence, position, std::move(row.forced));
    } else if (!row.likely.empty()) {
      speculation_->OnLikely(accepted.sequence, position, row.likely);
    }
  }
  committed_.push_back({*std::move(outcome), std::move(rows)});
  return absl::OkStatus();
}

void StepDriver::SitOut(const std::vector<SequenceId>& sequences, SteadyTime now) {
  // A row costs about a token: the pause grows with the wait, so that rows in vain stay few.
  constexpr absl::Duration kFirstPause = absl::Milliseconds(1);
  constexpr absl::Duration kLongestPause = absl::Milliseconds(50);
  constexpr size_t kManyPauses = 4096;
  if (pauses_.size() > kManyPauses) {
    absl::erase_if(
        pauses_, [this](const auto& pause) { return requests_->OwnerOf(pause.first) == nullptr; });
  }
  for (const SequenceId sequence : sequences) {
    absl::Duration& pause = pauses_[sequence];
    pause = std::clamp(2 * pause, kFirstPause, kLongestPause);
    returns_.emplace(now + pause, sequence);
  }
}

void StepDriver::ReturnDue(Scheduler& scheduler, SteadyTime now) {
  while (!returns_.empty() && returns_.begin()->first <= now) {
    const SequenceId sequence = returns_.begin()->second;
    returns_.erase(returns_.begin());
    scheduler.Return(sequence);
    if (requests_->OwnerOf(sequence) == nullptr) pauses_.erase(sequence);
  }
}

void StepDriver::CountWork(const StepInFlight& step, const std::vector<RowResult>& rows) {
  for (const auto& [row, sequence] : step.constrained) {
    if (rows[row].work == absl::ZeroDuration()) continue;
    absl::Status status = requests_->AddWork(sequence, rows[row].work);
    if (!status.ok()) overworked_.emplace_back(sequence, std::move(status));
  }
}

void StepDriver::Measure(const StepInFlight& step, Scheduler& scheduler, SteadyTime now) {
  times_.Completed(step.num_positions, now - step.sent);
  // A step that went on its way early waited for the one before.
  const absl::Duration time = now - std::max(step.sent, last_end_);
  const auto num_sequences = static_cast<int>(step.sequences.size());
  if (observer_ != nullptr) observer_->OnStep(time, step.num_positions, num_sequences);
  requests_->OnStep(num_sequences, step.num_positions, time);
  if (step.num_positions == num_sequences) {
    costs_.Observe(num_sequences, time);
    scheduler.SetStepCost(costs_.current());
  }
  const bool only_decodes = static_cast<size_t>(step.num_positions) == step.num_rows;
  if (only_decodes && !step.after_idle) {
    // One that was not sent early costs the time before it was sent as well, unless that went to
    // drafts, whose time is counted for itself.
    const bool drafted = speculation_->WaitedSince(last_end_.since_start());
    const absl::Duration whole = step.ahead || drafted ? time : std::min(now - last_end_, 2 * time);
    speculation_->OnStep({.rows = step.num_positions, .time = whole, .ahead = step.ahead});
  }
  last_end_ = now;
}

// A row that nobody wants any more may fail as it likes: its sequence has ended.
void StepDriver::FailBrokenRows(const StepOutcome& outcome, const std::vector<RowResult>& rows) {
  for (const AcceptedRow& accepted : outcome.rows) {
    const RowResult& row = rows[accepted.row];
    if (row.error.empty() || requests_->IsDeadEnd(accepted, row)) continue;
    const ActiveRequest* owner = requests_->OwnerOf(accepted.sequence);
    if (owner != nullptr) requests_->Fail(owner->id(), absl::Status(row.error_code, row.error));
  }
}

std::vector<RequestId> StepDriver::TellRequests() {
  std::vector<RequestId> moved;
  for (Committed& step : std::exchange(committed_, {})) {
    FailBrokenRows(step.outcome, step.rows);  // not before what came earlier is told
    std::vector<RequestId> by_this = requests_->Apply(step.outcome, step.rows);
    if (moved.empty()) {
      moved = std::move(by_this);
    } else {
      moved.insert(moved.end(), by_this.begin(), by_this.end());
    }
  }
  for (auto& [sequence, status] : std::exchange(overworked_, {})) {
    const ActiveRequest* owner = requests_->OwnerOf(sequence);
    if (owner != nullptr) requests_->Fail(owner->id(), status);
  }
  return moved;
}

std::vector<RequestId> StepDriver::Lose() {
  std::vector<RequestId> owners;
  for (const StepInFlight& step : std::exchange(in_flight_, {})) {
    for (SequenceId sequence : step.sequences) {
      const ActiveRequest* owner = requests_->OwnerOf(sequence);
      if (owner != nullptr) owners.push_back(owner->id());
    }
  }
  std::sort(owners.begin(), owners.end());
  owners.erase(std::unique(owners.begin(), owners.end()), owners.end());
  return owners;
}

SteadyTime StepDriver::NextTimeout() const {
  return in_flight_.empty() ? SteadyTime::InfiniteFuture()
                            : in_flight_.front().sent + in_flight_.front().bound;
}

absl::Status StepDriver::CheckTimeout(SteadyTime now) {
  if (now < NextTimeout()) return absl::OkStatus();
  times_.GaveUp();
  ++num_hangs_;
  return absl::DeadlineExceededError(absl::StrCat("step ", in_flight_.front().id,
                                                  " did not complete within ",
                                                  absl::FormatDuration(in_flight_.front().bound)));
}

}  // namespace sluice
