#include "orchestrator/scheduler/scheduler.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"

namespace sluice {

absl::Status Validate(const SchedulerOptions& options) {
  const std::pair<const char*, int32_t> fields[] = {
      {"max_tokens_per_step", options.max_tokens_per_step},
      {"max_sequences_per_step", options.max_sequences_per_step},
      {"max_queued_sequences", options.max_queued_sequences},
      {"max_queued_tokens", options.max_queued_tokens},
      {"max_positions", options.max_positions},
      {"max_inflight_steps", options.max_inflight_steps},
  };
  for (const auto& [name, value] : fields) {
    if (value < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " is ", value, "; it must be at least 1"));
    }
  }
  if (options.steps_ahead < 0 || options.steps_ahead > 63) {
    return absl::InvalidArgumentError(
        absl::StrCat("steps_ahead is ", options.steps_ahead, "; accepted: 0 to 63"));
  }
  if (!(options.max_slowdown >= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_slowdown is ", options.max_slowdown, "; it must be at least 1"));
  }
  return absl::OkStatus();
}

Scheduler::Scheduler(const SchedulerOptions& options, const KvCacheOptions& kv_cache_options)
    : options_(options), kv_cache_(kv_cache_options) {
  SLUICE_CHECK(Validate(options).ok());
}

absl::Status Scheduler::Add(SequenceSpec spec) {
  RefreshPolicies();
  if (absl::Status status = CheckSpec(spec); !status.ok()) return status;
  if (absl::Status status = CheckQueue(spec); !status.ok()) return status;
  std::optional<uint64_t> sibling_serial;
  if (spec.prompt_of.has_value() && !spec.score_prompt) {
    if (const SequenceState* sibling = Find(*spec.prompt_of)) {
      sibling_serial = sibling->place.serial;
    }
  }
  const SequenceId id = spec.id;
  const PlaceInLine place = {.negated_priority = -static_cast<int64_t>(spec.priority),
                             .arrival = num_added_,
                             .serial = num_added_};
  ++num_added_;
  const auto [it, added] = sequences_.try_emplace(id, std::move(spec), place);
  SLUICE_CHECK(added);
  SequenceState& sequence = it->second;
  sequence.sibling_serial = sibling_serial;
  sequence.tenant = &tenants_.Enter(sequence.spec.tenant, waiting_.least_served());
  waiting_.Insert(sequence);
  return absl::OkStatus();
}

void Scheduler::RefreshPolicies() {
  if (!options_.tenant_policies) return;
  std::shared_ptr<const TenantPolicies> policies = options_.tenant_policies();
  if (policies == policies_ || policies == nullptr) return;
  policies_ = std::move(policies);
  tenants_.SetPolicies(*policies_);
}

absl::Status Scheduler::CheckQueue(const SequenceSpec& spec) const {
  if (waiting_.num_sequences() >= options_.max_queued_sequences) {
    return absl::ResourceExhaustedError(absl::StrCat(waiting_.num_sequences(),
                                                     " sequences are waiting; the limit is ",
                                                     options_.max_queued_sequences));
  }
  const auto tokens = std::ssize(spec.prompt) + std::ssize(spec.resumed_tokens);
  if (!waiting_.empty() && waiting_.num_tokens() + tokens > options_.max_queued_tokens) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the sequences that wait have ", waiting_.num_tokens(), " tokens, this one ",
                     tokens, "; the limit is ", options_.max_queued_tokens));
  }
  const auto tenant = tenants_.all().find(spec.tenant);
  const int32_t waiting = tenant == tenants_.all().end() ? 0 : tenant->second.num_waiting;
  const int32_t most = tenants_.policies().Of(spec.tenant).max_waiting_sequences;
  if (waiting >= most) {
    return absl::ResourceExhaustedError(absl::StrCat(
        waiting, " sequences of tenant \"", spec.tenant, "\" are waiting; its limit is ", most));
  }
  return absl::OkStatus();
}

absl::Status Scheduler::CheckSpec(const SequenceSpec& spec) const {
  if (Find(spec.id) != nullptr) {
    return absl::AlreadyExistsError(absl::StrCat("sequence ", spec.id, " is alive"));
  }
  if (spec.prompt.empty()) {
    return absl::InvalidArgumentError("the prompt is empty; it needs at least 1 token");
  }
  const int32_t least = spec.score_prompt ? 0 : 1;
  if (spec.max_new_tokens < least) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_new_tokens is ", spec.max_new_tokens, "; at least ", least, " is accepted",
        spec.score_prompt ? "" : " (0 only where the prompt is scored)"));
  }
  if (const auto reason = AlreadyFinished(spec)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the ", spec.resumed_tokens.size(), " resumed tokens have ended the sequence already (",
        FinishReasonName(*reason), "; max_new_tokens is ", spec.max_new_tokens, ")"));
  }
  if (absl::Status status = CheckSize(spec); !status.ok()) return status;
  if (!spec.prompt_of.has_value()) return absl::OkStatus();
  const SequenceState* sibling = Find(*spec.prompt_of);
  if (sibling != nullptr &&
      !std::equal(spec.prompt.begin(), spec.prompt.end(), sibling->tokens.begin(),
                  sibling->tokens.begin() + sibling->num_prompt())) {
    return absl::InvalidArgumentError(absl::StrCat("prompt_of names sequence ", *spec.prompt_of,
                                                   ", whose prompt is another one"));
  }
  return absl::OkStatus();
}

absl::Status Scheduler::CheckSize(const SequenceSpec& spec) const {
  const auto num_prompt = static_cast<int64_t>(spec.prompt.size());
  const std::string sizes = spec.score_prompt
                                ? absl::StrCat("a text of ", num_prompt, " tokens")
                                : absl::StrCat("a prompt of ", num_prompt,
                                               " tokens and max_tokens of ", spec.max_new_tokens);
  if (num_prompt + spec.max_new_tokens > options_.max_positions) {
    return absl::InvalidArgumentError(
        absl::StrCat(sizes, " exceed the context of ", options_.max_positions, " positions"));
  }
  // The last token is chosen and never computed.
  const int64_t computed = num_prompt + std::max(spec.max_new_tokens - 1, 0);
  const int64_t capacity = int64_t{kv_cache_.num_total_blocks()} * kv_cache_.block_size();
  if (computed > capacity) {
    return absl::InvalidArgumentError(absl::StrCat(
        sizes, " need ", computed, " positions of KV cache; the whole pool holds ", capacity));
  }
  return absl::OkStatus();
}

absl::StatusOr<StepOutcome> Scheduler::Commit(StepId step, absl::Span<const TokenId> tokens) {
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
  const PlannedStep planned = std::move(in_flight_.front());
  in_flight_.pop_front();
  StepOutcome outcome;
  outcome.rows.reserve(planned.num_rows);
  int32_t row = 0;
  for (const PlannedSegment& segment : planned.segments) {
    SequenceState* sequence = Find(segment.sequence);
    // Otherwise it ended or was thrown back meanwhile, or its id belongs to a new one.
    if (sequence != nullptr && sequence->running && sequence->run == segment.run) {
      CommitSegment(*sequence, segment, tokens, row, outcome);
    }
    row += static_cast<int32_t>(segment.rows.size());
  }
  return outcome;
}

// Positions [first, end) have been computed: counts those that had been before.
void Scheduler::CountAgain(SequenceState& sequence, int32_t first, int32_t end) {
  const int64_t again = std::max(std::min(end, sequence.num_once_computed) - first, 0);
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

void Scheduler::CommitSegment(SequenceState& sequence, const PlannedSegment& segment,
                              absl::Span<const TokenId> tokens, int32_t first_row,
                              StepOutcome& outcome) {
  const auto num_drafts = static_cast<int32_t>(segment.drafts.size());
  const int32_t num_wrong = num_drafts - NumAccepted(segment, tokens.subspan(first_row));
  const int32_t num_positions = segment.num_positions - num_wrong;
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
  int32_t index = first_row;
  const auto rows = absl::MakeConstSpan(segment.rows).first(segment.rows.size() - num_wrong);
  for (const Row& row : rows) {
    const TokenId token = row.kind == RowKind::kScore ? row.target : tokens[index];
    const int32_t position = segment.first_position + row.offset + 1;
    outcome.rows.push_back({.sequence = segment.sequence,
                            .kind = row.kind,
                            .position = position,
                            .token = token,
                            .row = index});
    if (row.kind == RowKind::kSample) {
      SLUICE_CHECK(position == sequence.num_tokens());
      if (sequence.spec.chosen_outside) {
        AwaitChoice(sequence);
      } else {
        sequence.tokens.push_back(token);
        --sequence.num_promised;
        ++sequence.usage.generated_tokens;
      }
    }
    ++index;
  }
  kv_cache_.MarkComputed(segment.sequence, absl::MakeConstSpan(sequence.tokens).first(end));
  if (options_.drafts != nullptr && sequence.spec.max_drafts > 0 &&
      sequence.num_tokens() > num_tokens_before) {
    options_.drafts->OnTokens(sequence.spec, sequence.num_prompt(), sequence.tokens);
  }
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

absl::StatusOr<FinishedSequence> Scheduler::Finish(SequenceId id, FinishReason reason) {
  SequenceState* sequence = Find(id);
  if (sequence == nullptr) {
    return absl::NotFoundError(absl::StrCat("sequence ", id, " is not alive"));
  }
  return End(*sequence, reason);
}

absl::Status Scheduler::Fork(const ForkSpec& fork) {
  SequenceState* from = Find(fork.from);
  if (from == nullptr) {
    return absl::NotFoundError(absl::StrCat("sequence ", fork.from, " is not alive"));
  }
  if (fork.num_tokens < from->num_prompt() || fork.num_tokens > from->num_tokens()) {
    return absl::InvalidArgumentError(absl::StrCat("num_tokens is ", fork.num_tokens,
                                                   "; accepted for sequence ", fork.from, ": ",
                                                   from->num_prompt(), " to ", from->num_tokens()));
  }
  SequenceSpec spec = from->spec;
  spec.id = fork.to;
  spec.prompt_of.reset();
  spec.score_prompt = false;
  const auto prompt_end = from->tokens.begin() + from->num_prompt();
  spec.prompt.assign(from->tokens.begin(), prompt_end);
  spec.resumed_tokens.assign(prompt_end, from->tokens.begin() + fork.num_tokens);
  spec.resumed_tokens.insert(spec.resumed_tokens.end(), fork.continuation.begin(),
                             fork.continuation.end());
  if (absl::Status status = CheckSpec(spec); !status.ok()) return status;
  PlaceInLine place = from->place;
  place.serial = num_added_++;
  SequenceState& to = sequences_.try_emplace(fork.to, std::move(spec), place).first->second;
  to.tenant = &tenants_.Enter(to.spec.tenant, from->tenant->served);
  to.last_step = from->last_step;  // its turn comes when that of `from` does
  // Its last position is computed in any case, because it chooses the next token.
  const int32_t shared = std::min({from->num_computed, fork.num_tokens, to.num_tokens() - 1});
  if (shared > 0 && std::ssize(running_) < MaxRunning() &&
      from->tenant->num_running < from->tenant->policy.max_running_sequences &&
      AreAlike(from->num_tokens(), to.num_tokens())) {
    kv_cache_.Fork(fork.from, fork.to, shared);
    to.num_computed = to.num_planned = shared;
    to.usage.shared_positions = shared;
    to.copied_in = from->copied_in;
    StartRunning(to);
  } else {
    waiting_.Insert(to);
  }
  return absl::OkStatus();
}

FinishedSequence Scheduler::End(SequenceState& sequence, FinishReason reason) {
  const FinishedSequence finished = {.sequence = sequence.spec.id,
                                     .request = sequence.spec.request,
                                     .reason = reason,
                                     .usage = sequence.usage};
  if (sequence.running) {
    if (sequence.awaits_choice) --num_awaiting_;
    kv_cache_.Release(finished.sequence);
    running_.erase(sequence.place);
    --sequence.tenant->num_running;
  } else if (sequence.parked()) {
    --num_parked_;
  } else {
    waiting_.Erase(sequence);
  }
  tenants_.Leave(*sequence.tenant);
  if (options_.drafts != nullptr && sequence.spec.max_drafts > 0) {
    options_.drafts->OnEnd(finished.sequence, sequence.tokens);
  }
  sequences_.erase(finished.sequence);
  was_idle_ = was_idle_ || sequences_.empty();
  return finished;
}

void Scheduler::Reset() {
  was_idle_ = true;
  in_flight_.clear();
  copies_.clear();
  while (!running_.empty()) ThrowBack(*running_.begin()->second, ThrownBackBy::kLoss);
  kv_cache_.ForgetContents();
}

void Scheduler::AbandonSteps() {
  kv_cache_.ForgetToldTables();
  was_idle_ = true;
  if (in_flight_.empty()) return;
  const StepId first_lost = in_flight_.front().id;
  in_flight_.clear();
  copies_.clear();
  std::vector<std::pair<SequenceState*, ThrownBackBy>> thrown_back;
  for (const auto& [place, sequence] : running_) {
    ForgetFlight(*sequence);
    if (sequence->copied_in >= first_lost) {
      thrown_back.emplace_back(sequence, ThrownBackBy::kLoss);
    } else if (sequence->paused) {
      thrown_back.emplace_back(sequence, ThrownBackBy::kPause);
    }
  }
  for (const auto& [sequence, cause] : thrown_back) ThrowBack(*sequence, cause);
}

void Scheduler::Pause(SequenceId id) {
  SequenceState* sequence = Find(id);
  if (sequence == nullptr || sequence->paused) return;
  if (!sequence->running && !sequence->parked()) {
    waiting_.Erase(*sequence);
    ++num_parked_;
  }
  sequence->paused = true;
  if (sequence->running && sequence->num_in_flight == 0) ThrowBack(*sequence, ThrownBackBy::kPause);
}

void Scheduler::Resume(SequenceId id) {
  SequenceState* sequence = Find(id);
  if (sequence == nullptr || !std::exchange(sequence->paused, false)) return;
  // The step that it was part of has not ended yet, or its next token has not been chosen.
  if (sequence->running || sequence->parked()) return;
  --num_parked_;
  waiting_.Insert(*sequence);
}

double Scheduler::StartsAhead(const std::string& tenant) const {
  if (waiting_.empty()) return 0;
  const auto found = tenants_.all().find(tenant);
  const int32_t own = found == tenants_.all().end() ? 0 : found->second.num_waiting;
  // While its own go, so do others by their parts.
  return std::min<double>(waiting_.num_sequences() + 1, (own + 1) / tenants_.PartOf(tenant));
}

// What was in flight will not come, or does not count.
void Scheduler::ForgetFlight(SequenceState& sequence) {
  sequence.num_in_flight = 0;
  sequence.num_promised = 0;
  sequence.num_drafts = 0;
  sequence.num_planned = sequence.num_computed;
}

absl::StatusOr<SequenceReport> Scheduler::Report(SequenceId id) const {
  const SequenceState* sequence = Find(id);
  if (sequence == nullptr) {
    return absl::NotFoundError(absl::StrCat("sequence ", id, " is not alive"));
  }
  return SequenceReport{.phase = sequence->paused    ? SequencePhase::kPaused
                                 : sequence->running ? SequencePhase::kRunning
                                                     : SequencePhase::kWaiting,
                        .usage = sequence->usage,
                        .blocks = kv_cache_.BlocksOf(id)};
}

SchedulerStatistics Scheduler::statistics() const {
  return {.waiting_sequences = waiting_.num_sequences(),
          .running_sequences = static_cast<int32_t>(running_.size()),
          .paused_sequences = num_parked_,
          .inflight_steps = static_cast<int32_t>(in_flight_.size()),
          .active_tenants = tenants_.num_active(),
          .waiting_positions = waiting_.num_tokens(),
          .kv_cache = kv_cache_.statistics(),
          .started_sequences = num_started_,
          .preemptions = num_preemptions_,
          .computed_positions = num_computed_,
          .drafted_tokens = num_drafted_,
          .accepted_drafts = num_accepted_,
          .recomputed = recomputed_};
}

std::deque<Scheduler::PlannedStep>::iterator Scheduler::FindInFlight(StepId step) {
  return std::find_if(in_flight_.begin(), in_flight_.end(),
                      [step](const PlannedStep& planned) { return planned.id == step; });
}

absl::Status Scheduler::NotInFlight(StepId step) const {
  return absl::NotFoundError(
      step == 0 || step > last_step_
          ? absl::StrCat("step ", step, " was never planned; the latest is ", last_step_)
          : absl::StrCat("step ", step, " is over: committed or forgotten by a reset"));
}

SequenceState* Scheduler::Find(SequenceId id) {
  const auto it = sequences_.find(id);
  return it == sequences_.end() ? nullptr : &it->second;
}

const SequenceState* Scheduler::Find(SequenceId id) const {
  const auto it = sequences_.find(id);
  return it == sequences_.end() ? nullptr : &it->second;
}

}  // namespace sluice
