// What the end of a step means for the sequences in it.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "orchestrator/scheduler/scheduler.h"

namespace sluice {

absl::StatusOr<StepOutcome> Scheduler::Commit(StepId step, absl::Span<const TokenId> tokens,
                                              absl::Span<const int32_t> deferred) {
  const auto it = FindInFlight(step);
  if (it == in_flight_.end()) return NotInFlight(step);
  if (it != in_flight_.begin()) {
    return absl::FailedPreconditionError(absl::StrCat("step ", step, " has results before step ",
                                                      in_flight_.front().id,
                                                      ", the oldest in flight"));
  }
  if (std::ssize(tokens) != it->num_rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "step ", step, " has ", tokens.size(), " result rows; it was planned with ", it->num_rows));
  }
  if (!deferred.empty() && (deferred.front() < 0 || deferred.back() >= it->num_rows ||
                            !std::is_sorted(deferred.begin(), deferred.end()))) {
    return absl::InvalidArgumentError(absl::StrCat("step ", step, " has deferred rows from ",
                                                   deferred.front(), " to ", deferred.back(),
                                                   "; accepted: rising, of ", it->num_rows));
  }
  const PlannedStep planned = std::move(in_flight_.front());
  in_flight_.pop_front();
  StepOutcome outcome;
  outcome.rows.reserve(planned.num_rows);
  int32_t row = 0;
  for (const PlannedSegment& segment : planned.segments) {
    if (segment.sequence != nullptr) {
      CommitSegment(*segment.sequence, segment, {tokens, deferred, row}, outcome);
    }
    row += static_cast<int32_t>(segment.rows.size());
  }
  return outcome;
}

// Positions [first, end) have been computed: counts those that had been before.
void Scheduler::CountAgain(SequenceState& sequence, int32_t first, int32_t end) {
  if (sequence.num_once_computed <= first) return;
  const int64_t again = std::min(end, sequence.num_once_computed) - first;
  RecomputedPositions recomputed;
  switch (sequence.thrown_back_by) {
    case ThrownBackBy::kNobody:
      break;
    case ThrownBackBy::kPreemption:
      recomputed.after_preemption = again;
      break;
    case ThrownBackBy::kLoss:
      recomputed.after_loss = again;
      break;
    case ThrownBackBy::kGrowth:
      recomputed.after_growth = again;
      break;
    case ThrownBackBy::kPause:
      recomputed.after_pause = again;
      break;
  }
  sequence.usage.recomputed += recomputed;
  recomputed_ += recomputed;
}

// Whether a row that counts was deferred: the one behind the last of `num_accepted` drafts, or one
// before it, which then is the last that counts. Lowers `num_accepted` to the drafts before it.
bool Scheduler::IsDeferred(const PlannedSegment& segment, const SegmentResults& results,
                           int32_t& num_accepted) {
  if (results.deferred.empty() || segment.rows.empty()) return false;
  if (segment.rows.back().kind != RowKind::kSample) return false;
  const auto num_drafts = static_cast<int32_t>(segment.drafts.size());
  const int32_t first_choice =
      results.first_row + static_cast<int32_t>(segment.rows.size()) - 1 - num_drafts;
  const auto* const row =
      std::lower_bound(results.deferred.begin(), results.deferred.end(), first_choice);
  if (row == results.deferred.end() || *row > first_choice + num_accepted) return false;
  num_accepted = *row - first_choice;
  return true;
}

void Scheduler::CommitSegment(SequenceState& sequence, const PlannedSegment& segment,
                              const SegmentResults& results, StepOutcome& outcome) {
  const auto num_drafts = static_cast<int32_t>(segment.drafts.size());
  int32_t num_accepted = NumAccepted(segment, results.tokens.subspan(results.first_row));
  const bool is_deferred = IsDeferred(segment, results, num_accepted);
  const int32_t num_wrong = num_drafts - num_accepted;
  // The position of a deferred row is computed again, to choose its token.
  const int32_t num_dropped = num_wrong + (is_deferred ? 1 : 0);
  const int32_t num_positions = segment.num_positions - num_dropped;
  const int32_t end = segment.first_position + num_positions;
  const int32_t num_tokens_before = sequence.num_tokens();
  CountAgain(sequence, segment.first_position, end);
  --sequence.num_in_flight;
  sequence.num_computed = end;
  if (num_drafts > 0) sequence.num_planned = end;
  sequence.num_scored = std::max(sequence.num_scored, end);
  CountWork(sequence, num_positions, num_drafts, num_wrong);
  sequence.num_promised -= num_wrong;
  sequence.num_drafts = 0;
  AcceptRows(sequence, segment, num_dropped, results, outcome);
  if (is_deferred) Defer(sequence, outcome);
  kv_cache_.MarkComputed(sequence.spec.id, absl::MakeConstSpan(sequence.tokens).first(end));
  if (options_.drafts != nullptr && sequence.spec.max_drafts > 0 &&
      sequence.num_tokens() > num_tokens_before) {
    options_.drafts->OnTokens(sequence.spec, sequence.num_prompt(), sequence.tokens);
  }
  EndOrThrowBack(sequence, num_tokens_before, outcome);
}

// What was planned behind a deferred row goes on from a token that is not there.
void Scheduler::Defer(SequenceState& sequence, StepOutcome& outcome) {
  ForgetFlight(sequence);
  sequence.sits_out = true;
  sequence.was_deferred = true;
  outcome.deferred.push_back(sequence.spec.id);
}

void Scheduler::Return(SequenceId id) {
  SequenceState* sequence = Find(id);
  if (sequence != nullptr) sequence->sits_out = false;
}

// What the rows before those that are dropped have chosen or scored.
void Scheduler::AcceptRows(SequenceState& sequence, const PlannedSegment& segment,
                           int32_t num_dropped, const SegmentResults& results,
                           StepOutcome& outcome) {
  int32_t index = results.first_row;
  const auto rows = absl::MakeConstSpan(segment.rows).first(segment.rows.size() - num_dropped);
  for (const Row& row : rows) {
    const TokenId token = row.kind == RowKind::kScore ? row.target : results.tokens[index];
    const int32_t position = segment.first_position + row.offset + 1;
    outcome.rows.push_back({.sequence = sequence.spec.id,
                            .kind = row.kind,
                            .position = position,
                            .token = token,
                            .row = index});
    ++index;
    if (row.kind == RowKind::kScore) continue;
    SLUICE_CHECK(position == sequence.num_tokens());
    sequence.was_deferred = false;
    if (sequence.spec.chosen_outside) {
      AwaitChoice(sequence);
    } else {
      sequence.tokens.push_back(token);
      --sequence.num_promised;
      ++sequence.usage.generated_tokens;
    }
  }
}

void Scheduler::EndOrThrowBack(SequenceState& sequence, int32_t num_tokens_before,
                               StepOutcome& outcome) {
  if (const auto reason = sequence.ReasonToEnd()) {
    outcome.finished.push_back(End(sequence, *reason));
  } else if (!AreAlike(sequence.num_tokens(), num_tokens_before)) {
    ThrowBack(sequence, ThrownBackBy::kGrowth);
  } else if (sequence.paused) {
    ThrowBack(sequence, ThrownBackBy::kPause);
  }
}

void Scheduler::CountWork(SequenceState& sequence, int32_t num_positions, int32_t num_drafts,
                          int32_t num_wrong) {
  sequence.usage.computed_positions += num_positions;
  sequence.usage.drafted_tokens += num_drafts;
  sequence.usage.accepted_drafts += num_drafts - num_wrong;
  num_computed_ += num_positions;
  num_drafted_ += num_drafts;
  num_accepted_ += num_drafts - num_wrong;
}

}  // namespace sluice
