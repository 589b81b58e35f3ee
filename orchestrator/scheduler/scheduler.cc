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
  return absl::OkStatus();
}

Scheduler::Scheduler(const SchedulerOptions& options, const KvCacheOptions& kv_cache_options)
    : options_(options), kv_cache_(kv_cache_options) {
  SLUICE_CHECK(Validate(options).ok());
}

absl::StatusOr<FinishedSequence> Scheduler::Finish(SequenceId id, FinishReason reason) {
  SequenceState* sequence = Find(id);
  if (sequence == nullptr) {
    return absl::NotFoundError(absl::StrCat("sequence ", id, " is not alive"));
  }
  return End(*sequence, reason);
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

// There is a place for the fork, and what `from` has computed is of use to it.
bool Scheduler::MayShareWithFork(const SequenceState& from, const SequenceState& to) const {
  return std::ssize(running_) < MaxRunning() &&
         from.tenant->num_running < from.tenant->policy.max_running_sequences &&
         AreAlike(from.num_tokens(), to.num_tokens());
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
  SequenceSpec spec = SpecOf(*from, fork);
  if (absl::Status status = CheckSpec(spec); !status.ok()) return status;
  PlaceInLine place = from->place;
  place.serial = num_added_++;
  SequenceState& to = sequences_.try_emplace(fork.to, std::move(spec), place).first->second;
  to.tenant = &tenants_.Enter(to.spec.tenant, from->tenant->served);
  to.last_step = from->last_step;  // its turn comes when that of `from` does
  // Its last position is computed in any case, because it chooses the next token.
  const int32_t shared = std::min({from->num_computed, fork.num_tokens, to.num_tokens() - 1});
  if (shared > 0 && MayShareWithFork(*from, to)) {
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
    ForgetFlight(sequence);
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

std::vector<SequenceId> Scheduler::ResetWithBlocks(int32_t num_blocks) {
  Reset();
  kv_cache_.Resize(num_blocks);
  const int64_t capacity = int64_t{num_blocks} * kv_cache_.block_size();
  std::vector<SequenceId> too_large;
  for (const auto& [id, sequence] : sequences_) {
    // The last token is chosen and never computed.
    const int32_t most_new = std::max(sequence.spec.max_new_tokens - 1, 0);
    if (int64_t{sequence.num_prompt()} + most_new > capacity) too_large.push_back(id);
  }
  std::sort(too_large.begin(), too_large.end());  // the same calls give the same answers
  return too_large;
}

bool Scheduler::Shorten(SequenceId id) {
  SequenceState* const sequence = Find(id);
  if (sequence == nullptr || sequence->spec.max_new_tokens == 0) return false;
  const int64_t most_new =
      int64_t{kv_cache_.num_total_blocks()} * kv_cache_.block_size() - sequence->num_prompt() + 1;
  if (sequence->usage.generated_tokens >= most_new) return false;
  sequence->spec.max_new_tokens =
      static_cast<int32_t>(std::min<int64_t>(sequence->spec.max_new_tokens, most_new));
  return true;
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

void Scheduler::BillTime(const std::string& name, double seconds) {
  // Where it is not known what a position costs, about what a small model's does.
  constexpr double kSecondsPerPosition = 1e-3;
  Tenant* const tenant = tenants_.Find(name);
  if (tenant == nullptr || tenant->num_alive == 0) return;
  const double each = step_cost_.known() ? step_cost_.per_position : kSecondsPerPosition;
  waiting_.Bill(*tenant, Tenants::kDecodePrice * seconds / each);
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
  for (auto step = in_flight_.begin(); sequence.num_in_flight > 0 && step != in_flight_.end();
       ++step) {
    for (PlannedSegment& segment : step->segments) {
      if (segment.sequence == &sequence) segment.sequence = nullptr;
    }
  }
  sequence.num_in_flight = 0;
  sequence.num_promised = 0;
  sequence.num_drafts = 0;
  sequence.num_planned = sequence.num_computed;
}

absl::Span<const TokenId> Scheduler::TokensOf(SequenceId id) const {
  const SequenceState* const sequence = Find(id);
  if (sequence == nullptr) return {};
  return sequence->tokens;
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
