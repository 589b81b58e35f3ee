#include "orchestrator/scheduler/scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"

namespace sluice {

Scheduler::Scheduler(const SchedulerOptions& options, const KvCacheOptions& kv_cache_options)
    : options_(options),
      kv_cache_(kv_cache_options),
      own_tenants_(options_.tenants == nullptr ? std::make_unique<Tenants>(options_.tenant_policies)
                                               : nullptr),
      tenants_(own_tenants_ == nullptr ? *options_.tenants : *own_tenants_),
      table_(options_.num_slots(), tenants_, options_.num_adapter_slots),
      admission_(options_, tenants_, table_),
      budget_(options_, kv_cache_, table_, flights_, admission_),
      builder_(options_, kv_cache_, table_, flights_, admission_, budget_),
      progress_(options_, kv_cache_, table_, flights_, budget_) {
  SLUICE_CHECK(Validate(options).ok());
}

// ---- Steps ----

std::optional<Step> Scheduler::Plan() {
  std::optional<Step> step = builder_.Build();
  if (step.has_value()) step->after_idle = std::exchange(was_idle_, false);
  return step;
}

absl::StatusOr<StepOutcome> Scheduler::Commit(StepId step, absl::Span<const TokenId> tokens,
                                              absl::Span<const int32_t> deferred) {
  absl::StatusOr<StepOutcome> outcome = progress_.Commit(step, tokens, deferred);
  was_idle_ = was_idle_ || table_.all().empty();
  return outcome;
}

void Scheduler::Reset() {
  was_idle_ = true;
  flights_.Clear();
  budget_.TakeCopies();
  budget_.TakeStateCopies();
  table_.adapters().ForgetTold();
  while (!table_.running().empty()) {
    budget_.ReleaseAndRequeue(*table_.running().begin()->second, RecomputeReason::kLoss);
  }
  kv_cache_.ForgetContents();
}

std::vector<SequenceId> Scheduler::ResetWithBlocks(int32_t num_blocks, int32_t num_state_slots) {
  Reset();
  kv_cache_.Resize(num_blocks, num_state_slots);
  const int64_t capacity = int64_t{num_blocks} * kv_cache_.block_size();
  std::vector<SequenceId> too_large;
  for (const auto& [id, sequence] : table_.all()) {
    // The last token is chosen and never computed.
    const int32_t most_new = std::max(sequence.spec.max_new_tokens - 1, 0);
    if (int64_t{sequence.num_prompt()} + most_new > capacity) too_large.push_back(id);
  }
  std::sort(too_large.begin(), too_large.end());  // the same calls give the same answers
  return too_large;
}

void Scheduler::AbandonSteps() {
  kv_cache_.ForgetToldTables();
  table_.adapters().ForgetTold();
  was_idle_ = true;
  if (flights_.empty()) return;
  const StepId first_lost = flights_.oldest_id();
  flights_.Clear();
  budget_.TakeCopies();
  budget_.TakeStateCopies();
  std::vector<std::pair<SequenceState*, RecomputeReason>> released;
  for (const auto& [position, sequence] : table_.running()) {
    flights_.Forget(*sequence);
    if (sequence->copied_in >= first_lost) {
      released.emplace_back(sequence, RecomputeReason::kLoss);
    } else if (sequence->paused) {
      released.emplace_back(sequence, RecomputeReason::kPause);
    }
  }
  for (const auto& [sequence, reason] : released) budget_.ReleaseAndRequeue(*sequence, reason);
}

// ---- Sequences ----

absl::Status Scheduler::Add(SequenceSpec spec) {
  admission_.Refresh();
  if (absl::Status status = CheckSpec(spec); !status.ok()) return status;
  if (absl::Status status = admission_.CheckQueue(spec); !status.ok()) return status;
  std::optional<uint64_t> sibling_serial;
  if (spec.prompt_of.has_value() && !spec.score_prompt) {
    if (const SequenceState* sibling = table_.Find(*spec.prompt_of)) {
      sibling_serial = sibling->position.serial;
    }
  }
  const uint64_t serial = table_.TakeSerial();
  const QueuePosition position = {.negated_priority = -static_cast<int64_t>(spec.priority),
                                  .arrival = serial,
                                  .serial = serial};
  SequenceState& sequence = table_.Add(std::move(spec), position, table_.queue().least_served());
  sequence.sibling_serial = sibling_serial;
  table_.Enqueue(sequence);
  return absl::OkStatus();
}

// All that holds for `from`, but that it scores nothing.
SequenceSpec Scheduler::SpecOf(const SequenceState& from, const ForkSpec& fork) {
  SequenceSpec spec = from.spec;
  spec.id = fork.to;
  spec.prompt_of.reset();
  spec.score_prompt = false;
  const auto prompt_end = from.tokens.begin() + from.num_prompt();
  spec.prompt.assign(from.tokens.begin(), prompt_end);
  spec.resumed_tokens.assign(prompt_end, from.tokens.begin() + fork.num_tokens);
  spec.resumed_tokens.insert(spec.resumed_tokens.end(), fork.continuation.begin(),
                             fork.continuation.end());
  return spec;
}

absl::Status Scheduler::Fork(const ForkSpec& fork) {
  const SequenceState* const from = table_.Find(fork.from);
  if (from == nullptr) {
    return absl::NotFoundError(absl::StrCat("sequence ", fork.from, " is not alive"));
  }
  if (fork.num_tokens < from->num_prompt() || fork.num_tokens > from->num_tokens()) {
    return absl::InvalidArgumentError(absl::StrCat("num_tokens is ", fork.num_tokens,
                                                   "; accepted for sequence ", fork.from, ": ",
                                                   from->num_prompt(), " to ", from->num_tokens()));
  }
  SequenceSpec spec = SpecOf(*from, fork);
  if (absl::Status status = CheckSpec(spec); !status.ok()) return status;
  QueuePosition position = from->position;
  position.serial = table_.TakeSerial();
  SequenceState& to = table_.Add(std::move(spec), position, from->tenant->served);
  to.last_step = from->last_step;  // it is decoded when `from` is
  // The last position is computed in any case, because it chooses the next token.
  const int32_t shared = std::min({from->num_computed, fork.num_tokens, to.num_tokens() - 1});
  if (!budget_.RunFork(*from, to, shared)) table_.Enqueue(to);
  return absl::OkStatus();
}

absl::Status Scheduler::Append(SequenceId sequence, TokenId token) {
  return progress_.Append(sequence, token);
}

absl::StatusOr<FinishedSequence> Scheduler::Finish(SequenceId id, FinishReason reason) {
  SequenceState* const sequence = table_.Find(id);
  if (sequence == nullptr) {
    return absl::NotFoundError(absl::StrCat("sequence ", id, " is not alive"));
  }
  FinishedSequence finished = progress_.End(*sequence, reason);
  was_idle_ = was_idle_ || table_.all().empty();
  return finished;
}

bool Scheduler::Shorten(SequenceId id) {
  SequenceState* const sequence = table_.Find(id);
  if (sequence == nullptr || sequence->spec.max_new_tokens == 0) return false;
  const int64_t most_new =
      int64_t{kv_cache_.num_total_blocks()} * kv_cache_.block_size() - sequence->num_prompt() + 1;
  if (sequence->usage.generated_tokens >= most_new) return false;
  sequence->spec.max_new_tokens =
      static_cast<int32_t>(std::min<int64_t>(sequence->spec.max_new_tokens, most_new));
  return true;
}

void Scheduler::Pause(SequenceId id) {
  SequenceState* const sequence = table_.Find(id);
  if (sequence == nullptr || sequence->paused) return;
  table_.SetPaused(*sequence, true);
  if (sequence->is_running() && sequence->flight.num_steps == 0) {
    budget_.ReleaseAndRequeue(*sequence, RecomputeReason::kPause);
  }
}

void Scheduler::Resume(SequenceId id) {
  SequenceState* const sequence = table_.Find(id);
  if (sequence != nullptr && sequence->paused) table_.SetPaused(*sequence, false);
}

void Scheduler::Return(SequenceId id) {
  SequenceState* const sequence = table_.Find(id);
  if (sequence != nullptr) sequence->deferred = false;
}

void Scheduler::BillTime(const std::string& tenant, double seconds) {
  admission_.ChargeTime(tenant, seconds, builder_.step_cost());
}

// ---- Reports ----

absl::Span<const TokenId> Scheduler::TokensOf(SequenceId id) const {
  const SequenceState* const sequence = table_.Find(id);
  if (sequence == nullptr) return {};
  return sequence->tokens;
}

absl::StatusOr<SequenceReport> Scheduler::Report(SequenceId id) const {
  const SequenceState* const sequence = table_.Find(id);
  if (sequence == nullptr) {
    return absl::NotFoundError(absl::StrCat("sequence ", id, " is not alive"));
  }
  return SequenceReport{.phase = sequence->paused         ? SequencePhase::kPaused
                                 : sequence->is_running() ? SequencePhase::kRunning
                                                          : SequencePhase::kWaiting,
                        .usage = sequence->usage,
                        .blocks = kv_cache_.BlocksOf(id)};
}

SchedulerStatistics Scheduler::statistics() const {
  const ProgressCounts& counts = progress_.counts();
  return {.waiting_sequences = table_.queue().num_sequences(),
          .running_sequences = static_cast<int32_t>(table_.running().size()),
          .paused_sequences = table_.num_parked(),
          .inflight_steps = static_cast<int32_t>(flights_.size()),
          .active_tenants = tenants_.num_active(),
          .waiting_positions = table_.queue().num_tokens(),
          .kv_cache = kv_cache_.statistics(),
          .started_sequences = budget_.num_started(),
          .preemptions = budget_.num_preemptions(),
          .computed_positions = counts.computed_positions,
          .drafted_tokens = counts.drafted_tokens,
          .accepted_drafts = counts.accepted_drafts,
          .recomputed = counts.recomputed};
}

}  // namespace sluice
