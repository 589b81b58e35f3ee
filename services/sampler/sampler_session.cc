#include "services/sampler/sampler_session.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/common/status.h"
#include "services/common/utf8_text.h"
#include "services/sampler/perturbation.h"
#include "services/stage/stage_adapters.h"

namespace sluice {
namespace {

void ToProto(const SampledToken& sampled, v1::SampledRow& row) {
  if (!sampled.status.ok()) {
    row.set_error_message(CleanUtf8(sampled.status.message()));
    row.set_error_code(sampled.status.raw_code());
    return;
  }
  row.set_token_id(sampled.token.id);
  row.set_logprob(sampled.token.logprob);
  row.mutable_embedding()->Add(sampled.embedding.begin(), sampled.embedding.end());
}

void AddTop(const SampledToken& sampled, v1::SampledRow& row) {
  for (const auto& [id, logprob] : sampled.top) {
    row.add_top_token_ids(id);
    row.add_top_logprobs(logprob);
  }
}

// The tokens of `sampled`, which are all that can be drawn, by their perturbed log-probabilities.
void AddPerturbed(const SampledToken& sampled, const v1::SamplerRow& asked, uint64_t seed,
                  v1::SampledRow& row) {
  if (!sampled.status.ok()) return;
  const NoisePlace place = {
      .seed = seed, .sequence_index = asked.sequence_index(), .position = asked.position()};
  for (const auto& [token, perturbed] : MostPerturbed(sampled.top, place, asked.num_logprobs())) {
    row.add_top_token_ids(token.id);
    row.add_top_logprobs(token.logprob);
    row.add_top_perturbed(perturbed);
  }
}

// A sequence whose row chose no token does not go on from it: what the embedding makes of it for
// the step under way is dropped.
int32_t IdOf(const SampledToken& sampled) { return sampled.status.ok() ? sampled.token.id : 0; }

// Tokens told of that a constraint forces, at most.
constexpr int32_t kMostForced = 64;

// Half of the time that others took for the step: that is how long its masks may hold it up.
SteadyTime DeadlineAfter(absl::Duration time) {
  constexpr absl::Duration kLeast = absl::Microseconds(200);
  constexpr absl::Duration kMost = absl::Milliseconds(20);
  return SteadyTime::Now() + std::clamp(time / 2, kLeast, kMost);
}

// Of up to `most` tokens: those that must follow, or that are likely to because the text must. None
// where that takes longer than `time` allows.
void AddWhatFollows(SamplerSequence& sequence, int32_t most, absl::Duration time,
                    v1::SampledRow& row) {
  sequence.AskForMasks({}, most);
  const MaskAnswer* answer = sequence.text()->Answer(DeadlineAfter(time));
  if (answer == nullptr) return;
  row.mutable_forced_token_ids()->Add(answer->forced.begin(), answer->forced.end());
  row.mutable_likely_token_ids()->Add(answer->likely.begin(), answer->likely.end());
}

// What a row that is refused is drawn with, if it were.
const SamplingOptions& NoOptions() {
  static const SamplingOptions& options = *new SamplingOptions{.temperature = 0};
  return options;
}

bool HasDraftBehind(const v1::SamplerExecute& plan, int row) {
  return row + 1 < plan.rows_size() && plan.rows(row + 1).has_draft_token_id();
}

}  // namespace

SamplerSession::SamplerSession(const StageOpening& opening, Sampler& sampler,
                               AdapterLibrary& adapters, Backend& backend,
                               ConstraintStore& constraints, ChosenTokensPublisher& publisher)
    : sampler_(sampler),
      adapters_(adapters),
      constraints_(constraints),
      on_step_(opening.on_step),
      sequences_(sampler.vocab_size(), &constraints),
      options_cache_(sampler.vocab_size()),
      port_(opening.open, opening.stream,
            {.wiring = opening.wiring,
             .memory = {.backend = backend, .hidden_size = sampler.row_width()},
             .peers = {.receiver = &opening.receiver, .publisher = &publisher}}) {}

absl::Status SamplerSession::Serve() {
  sampler_.DropAdapters();
  absl::Status status = port_.Open();
  while (status.ok()) {
    const absl::StatusOr<v1::StageExecute> step = port_.NextPlan();
    if (!step.ok()) return step.status();
    status = TakeAdapters(
        *step, adapters_,
        [&](int slot, const std::shared_ptr<const AdapterSource>& source) {
          return sampler_.LoadAdapter(slot, *source);
        },
        [&](int slot) { sampler_.DropAdapter(slot); });
    if (!status.ok()) return Annotate(status, absl::StrCat("step ", step->step_id()));
    const v1::SamplerExecute& plan = step->sampler();
    if (plan.has_vocabulary()) constraints_.SetVocabulary(plan.vocabulary());
    Prepared prepared = Prepare(plan);
    const absl::StatusOr<v1::PushStep> rows = port_.RowsOf(step->step_id());
    if (!rows.ok()) return rows.status();
    TakeMasks(prepared);
    status = Annotate(Execute(*step, prepared, *rows), absl::StrCat("step ", step->step_id()));
  }
  return status;
}

SamplerSession::Prepared SamplerSession::Prepare(const v1::SamplerExecute& plan) {
  sequences_.Update(plan);
  options_cache_.Drop(plan);
  Prepared prepared;
  prepared.tasks.reserve(plan.rows_size());
  prepared.rows.reserve(plan.rows_size());
  for (int row = 0; row < plan.rows_size(); ++row) PrepareRow(plan, row, prepared);
  return prepared;
}

void SamplerSession::PrepareRow(const v1::SamplerExecute& plan, int index, Prepared& prepared) {
  const v1::SamplerRow& row = plan.rows(index);
  SamplerTask& task = prepared.tasks.emplace_back();
  prepared.rows.push_back({.first = index});
  if (row.has_adapter_slot()) task.adapter_slot = row.adapter_slot();
  task.num_logprobs = row.num_logprobs();
  task.processed_logprobs = row.processed_logprobs() && !row.has_score_token_id();
  if (row.has_pool()) {
    task.token = PooledRow{.is_last = row.pool().is_last()};
    return;
  }
  if (row.perturbed() && !row.has_score_token_id()) {
    task.num_logprobs = static_cast<int>(sampler_.vocab_size());
    task.processed_logprobs = true;
  }
  if (row.has_score_token_id()) {
    task.token = TokenToScore{row.score_token_id()};
  } else if (std::shared_ptr<const SequenceOptionsCache::Entry> told = options_cache_.Of(row)) {
    task.refusal = told->refusal;
    task.token = SampleRowFor(told->options, row.sequence_index(), row.position());
    prepared.options.push_back(std::move(told));
  } else {
    PrepareRowOfSequence(plan, index, prepared);
  }
}

void SamplerSession::PrepareRowOfSequence(const v1::SamplerExecute& plan, int index,
                                          Prepared& prepared) {
  const v1::SamplerRow& row = plan.rows(index);
  SamplerTask& task = prepared.tasks.back();
  PreparedRow& state = prepared.rows.back();
  task.token = SampleRowFor(NoOptions(), row.sequence_index(), row.position());
  if (row.has_draft_token_id() && index > 0) {
    const PreparedRow& before = prepared.rows[index - 1];
    state.first = before.first;
    state.deferred = before.deferred;
    task.refusal = prepared.tasks[index - 1].refusal;
    if (!task.refusal.ok()) return;
  }
  const auto sequence = FindSequence(row);
  if (!sequence.ok()) {
    task.refusal = sequence.status();
    state.deferred = absl::IsUnavailable(sequence.status());
    return;
  }
  state.sequence = *sequence;
  SampleRow sample = SampleRowFor((*sequence)->options(), row.sequence_index(), row.position());
  sample.allowed = (*sequence)->allowed();
  sample.edits = prepared.edits.emplace_back((*sequence)->Edits());
  task.token = sample;
  if ((*sequence)->text() == nullptr || row.has_draft_token_id()) return;
  std::vector<int32_t> drafts;
  for (int last = index; HasDraftBehind(plan, last); ++last) {
    drafts.push_back(plan.rows(last + 1).draft_token_id());
  }
  (*sequence)->AskForMasks(std::move(drafts), /*max_following=*/0);
}

void SamplerSession::TakeMasks(Prepared& prepared) {
  std::optional<SteadyTime> deadline;
  for (size_t index = 0; index < prepared.rows.size(); ++index) {
    PreparedRow& row = prepared.rows[index];
    SamplerTask& task = prepared.tasks[index];
    if (row.sequence == nullptr || row.sequence->text() == nullptr) continue;
    if (!deadline.has_value()) deadline = DeadlineAfter(SteadyTime::Now() - prepared.begin);
    const MaskAnswer* answer = row.sequence->text()->Answer(*deadline);
    if (answer == nullptr) {
      row.deferred = true;
      task.refusal = absl::UnavailableError("the mask of its constraint is not ready");
      continue;
    }
    const absl::StatusOr<std::vector<uint32_t>>& mask =
        answer->masks[index - static_cast<size_t>(row.first)];
    if (!mask.ok()) {
      task.refusal = mask.status();
      continue;
    }
    std::vector<uint32_t>& allowed = prepared.masks.emplace_back(*mask);
    const absl::Span<const uint32_t> within = row.sequence->allowed();
    for (size_t i = 0; i < within.size(); ++i) allowed[i] &= within[i];
    std::get<SampleRow>(task.token).allowed = allowed;
  }
}

// As the tokens before the row's are, whoever chose the last of them.
absl::StatusOr<SamplerSequence*> SamplerSession::FindSequence(const v1::SamplerRow& row) {
  if (row.has_draft_token_id()) {
    return sequences_.Assume(row.sequence_id(), row.position(), row.draft_token_id());
  }
  if (!row.has_previous_token_id()) return sequences_.Find(row.sequence_id(), row.position());
  const int32_t previous = row.previous_token_id();
  if (previous < 0 || previous >= sampler_.vocab_size()) {
    return absl::InvalidArgumentError(absl::StrCat("previous_token_id is ", previous,
                                                   "; accepted: 0 to ", sampler_.vocab_size() - 1));
  }
  auto sequence = sequences_.Find(row.sequence_id(), row.position() - 1);
  if (sequence.ok()) (*sequence)->Append(previous);
  return sequence;
}

absl::Status SamplerSession::Execute(const v1::StageExecute& step, const Prepared& prepared,
                                     const v1::PushStep& rows) {
  const v1::SamplerExecute& plan = step.sampler();
  const SteadyTime begin = SteadyTime::Now();
  absl::Status status = port_.Load(rows);
  if (!status.ok()) return status;
  if (port_.rows().rows() != plan.rows_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(port_.rows().rows(), " rows for a plan of ", plan.rows_size()));
  }
  const ProgressWatch::Work work(progress(), "step", plan.rows_size());
  absl::StatusOr<std::vector<SampledToken>> sampled =
      sampler_.Run(port_.rows().view(), prepared.tasks);
  if (!sampled.ok()) return sampled.status();
  // First: the next step waits for it.
  Publish(rows, *sampled, SteadyTime::Now() - begin);
  port_.Done();
  Answer(step, prepared, *sampled, SteadyTime::Now() - begin);
  on_step_();
  return absl::OkStatus();
}

void SamplerSession::Answer(const v1::StageExecute& step, const Prepared& prepared,
                            const std::vector<SampledToken>& sampled, absl::Duration time) {
  const v1::SamplerExecute& plan = step.sampler();
  v1::StageRunResponse response;
  response.mutable_executed()->set_epoch(step.epoch());
  response.mutable_executed()->set_step_id(step.step_id());
  v1::SamplerExecuted& executed = *response.mutable_executed()->mutable_sampler();
  for (int row = 0; row < plan.rows_size(); ++row) {
    v1::SampledRow& answer = *executed.add_rows();
    if (prepared.rows[row].deferred) {
      answer.set_deferred(true);
      continue;
    }
    const SampledToken& token = sampled[row];
    ToProto(token, answer);
    const v1::SamplerRow& asked = plan.rows(row);
    if (asked.perturbed() && !asked.has_score_token_id()) {
      AddPerturbed(token, asked, prepared.SeedOf(row), answer);
    } else {
      AddTop(token, answer);
    }
  }
  for (int row = 0; row < plan.rows_size(); ++row) {
    SamplerSequence* sequence = prepared.rows[row].sequence;
    if (sequence == nullptr || plan.rows(row).has_draft_token_id()) continue;
    const std::optional<int> last = CommitAcceptedDrafts(plan, prepared, sampled, row);
    if (sequence->text() == nullptr) continue;
    if (last.has_value()) {
      const int32_t max_forced = std::min(plan.rows(*last).max_forced_tokens(), kMostForced);
      if (max_forced > 0) {
        AddWhatFollows(*sequence, max_forced, time, *executed.mutable_rows(*last));
      }
    }
    executed.mutable_rows(row)->set_work_us(
        static_cast<uint64_t>(absl::ToInt64Microseconds(sequence->text()->TakeWork())));
  }
  port_.Answer(std::move(response));
}

std::optional<int> SamplerSession::CommitAcceptedDrafts(const v1::SamplerExecute& plan,
                                                        const Prepared& prepared,
                                                        const std::vector<SampledToken>& sampled,
                                                        int first) {
  int last = first;
  while (HasDraftBehind(plan, last) && sampled[last].status.ok() &&
         sampled[last].token.id == plan.rows(last + 1).draft_token_id()) {
    ++last;
  }
  SamplerSequence& sequence = *prepared.rows[first].sequence;
  const int32_t position = plan.rows(last).position();
  sequence.Truncate(position);
  if (!sampled[last].status.ok()) {  // a deferred row is one that was refused
    sequence.set_without_token(position);
    return std::nullopt;
  }
  sequence.Append(sampled[last].token.id);
  return last;
}

void SamplerSession::Publish(const v1::PushStep& rows, const std::vector<SampledToken>& sampled,
                             absl::Duration time) {
  v1::Chosen chosen;
  chosen.set_step_id(rows.step_id());
  *chosen.mutable_computed_ns() = rows.computed_ns();
  chosen.add_computed_ns(static_cast<uint64_t>(absl::ToInt64Nanoseconds(time)));
  for (const SampledToken& token : sampled) chosen.add_token_ids(IdOf(token));
  port_.Publish(std::move(chosen));
}

}  // namespace sluice
