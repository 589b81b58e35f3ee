#include "orchestrator/scheduler/sequence_progress.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"

namespace sluice {

absl::StatusOr<StepOutcome> SequenceProgress::Commit(StepId step, absl::Span<const TokenId> tokens,
                                                     absl::Span<const int32_t> deferred) {
  if (absl::Status status = flights_.CheckResults(step, tokens.size(), deferred); !status.ok()) {
    return status;
  }
  const PlannedStep planned = flights_.TakeOldest();
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

void SequenceProgress::CommitSegment(SequenceState& sequence, const PlannedSegment& segment,
                                     const SegmentResults& results, StepOutcome& outcome) {
  const auto num_drafts = static_cast<int32_t>(segment.drafts.size());
  int32_t num_accepted = NumAccepted(segment, results.tokens.subspan(results.first_row));
  const bool is_deferred = IsDeferred(segment, results, num_accepted);
  const int32_t num_wrong = num_drafts - num_accepted;
  // The position of a deferred row is computed again, to choose its token.
  const int32_t num_dropped = num_wrong + (is_deferred ? 1 : 0);
  const int32_t num_positions = segment.num_positions - num_dropped;
  const int32_t whole_end = segment.first_position + num_positions;
  // Where positions are dropped, the last of the others may be in a block whose state was passed over.
  const int32_t end = kv_cache_.PositionsWithState(sequence.spec.id, whole_end);
  const int32_t num_tokens_before = sequence.num_tokens();
  CountRecomputed(sequence, segment.first_position, whole_end);
  CountWork(sequence, num_positions, num_drafts, num_wrong);
  StepsInFlight::Land(sequence, segment, end, num_wrong);
  sequence.num_scored = std::max(sequence.num_scored, whole_end);
  AcceptRows(sequence, segment, num_dropped, results, outcome);
  if (is_deferred) Defer(sequence, outcome);
  kv_cache_.MarkComputed(sequence.spec.id, absl::MakeConstSpan(sequence.tokens).first(end));
  if (options_.drafts != nullptr && sequence.spec.max_drafts > 0 &&
      sequence.num_tokens() > num_tokens_before) {
    options_.drafts->OnTokens(sequence.spec, sequence.num_prompt(), sequence.tokens);
  }
  EndOrRequeue(sequence, num_tokens_before, outcome);
}

// The leading drafts that are what was chosen. `chosen` begins with the segment's rows.
int32_t SequenceProgress::NumAccepted(const PlannedSegment& segment,
                                      absl::Span<const TokenId> chosen) {
  const Tokens& drafts = segment.drafts;
  const auto wrong = std::mismatch(drafts.begin(), drafts.end(), chosen.begin()).first;
  return static_cast<int32_t>(wrong - drafts.begin());
}

// Whether a row that counts was deferred: the one behind the last of `num_accepted` drafts, or one
// before it, which then is the last that counts. Lowers `num_accepted` to the drafts before it.
bool SequenceProgress::IsDeferred(const PlannedSegment& segment, const SegmentResults& results,
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

// What the rows before those that are dropped have chosen or scored.
void SequenceProgress::AcceptRows(SequenceState& sequence, const PlannedSegment& segment,
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
    if (row.kind != RowKind::kSample) continue;
    SLUICE_CHECK(position == sequence.num_tokens());
    sequence.was_deferred = false;
    if (sequence.spec.externally_sampled) {
      table_.SetAwaitsChoice(sequence, true);
    } else {
      sequence.tokens.push_back(token);
      --sequence.flight.num_promised;
      ++sequence.usage.generated_tokens;
    }
  }
}

// What was planned behind a deferred row goes on from a token that does not exist.
void SequenceProgress::Defer(SequenceState& sequence, StepOutcome& outcome) {
  flights_.Forget(sequence);
  sequence.deferred = true;
  sequence.was_deferred = true;
  outcome.deferred.push_back(sequence.spec.id);
}

void SequenceProgress::EndOrRequeue(SequenceState& sequence, int32_t num_tokens_before,
                                    StepOutcome& outcome) {
  if (const auto reason = sequence.ReasonToEnd()) {
    outcome.finished.push_back(End(sequence, *reason));
  } else if (!options_.ShareKeys(sequence.num_tokens(), num_tokens_before)) {
    budget_.ReleaseAndRequeue(sequence, RecomputeReason::kGrowth);
  } else if (sequence.paused) {
    budget_.ReleaseAndRequeue(sequence, RecomputeReason::kPause);
  }
}

absl::Status SequenceProgress::Append(SequenceId id, TokenId token) {
  SequenceState* const sequence = table_.Find(id);
  if (sequence == nullptr) {
    return absl::NotFoundError(absl::StrCat("sequence ", id, " is not alive"));
  }
  if (!sequence->awaits_choice) {
    return absl::FailedPreconditionError(absl::StrCat("sequence ", id, " awaits no choice"));
  }
  if (sequence->stop_tokens.contains(token) ||
      sequence->usage.generated_tokens + 1 >= sequence->spec.max_new_tokens) {
    return absl::InvalidArgumentError(absl::StrCat("token ", token, " ends sequence ", id,
                                                   ", which has ", sequence->usage.generated_tokens,
                                                   " of ", sequence->spec.max_new_tokens));
  }
  table_.SetAwaitsChoice(*sequence, false);
  sequence->tokens.push_back(token);
  ++sequence->usage.generated_tokens;
  if (sequence->is_running() &&
      !options_.ShareKeys(sequence->num_tokens(), sequence->num_tokens() - 1)) {
    budget_.ReleaseAndRequeue(*sequence, RecomputeReason::kGrowth);
  } else {
    table_.Unpark(*sequence);
  }
  return absl::OkStatus();
}

FinishedSequence SequenceProgress::End(SequenceState& sequence, FinishReason reason) {
  FinishedSequence finished = {.sequence = sequence.spec.id,
                               .request = sequence.spec.request,
                               .reason = reason,
                               .usage = sequence.usage};
  if (sequence.is_running()) {
    flights_.Forget(sequence);
    kv_cache_.Release(finished.sequence);
  }
  if (options_.drafts != nullptr && sequence.spec.max_drafts > 0) {
    options_.drafts->OnEnd(finished.sequence, sequence.tokens);
  }
  table_.Erase(sequence);
  return finished;
}

// Positions [first, end) have been computed: counts those that had been before.
void SequenceProgress::CountRecomputed(SequenceState& sequence, int32_t first, int32_t end) {
  if (sequence.num_once_computed <= first) return;
  const int64_t again = std::min(end, sequence.num_once_computed) - first;
  RecomputedPositions recomputed;
  switch (sequence.recompute_reason) {
    case RecomputeReason::kNone:
      break;
    case RecomputeReason::kPreemption:
      recomputed.after_preemption = again;
      break;
    case RecomputeReason::kLoss:
      recomputed.after_loss = again;
      break;
    case RecomputeReason::kGrowth:
      recomputed.after_growth = again;
      break;
    case RecomputeReason::kPause:
      recomputed.after_pause = again;
      break;
  }
  sequence.usage.recomputed += recomputed;
  counts_.recomputed += recomputed;
}

void SequenceProgress::CountWork(SequenceState& sequence, int32_t num_positions, int32_t num_drafts,
                                 int32_t num_wrong) {
  sequence.usage.computed_positions += num_positions;
  sequence.usage.drafted_tokens += num_drafts;
  sequence.usage.accepted_drafts += num_drafts - num_wrong;
  counts_.computed_positions += num_positions;
  counts_.drafted_tokens += num_drafts;
  counts_.accepted_drafts += num_drafts - num_wrong;
}

}  // namespace sluice
