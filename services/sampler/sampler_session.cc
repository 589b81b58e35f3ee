#include "services/sampler/sampler_session.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/common/lane_offer.h"
#include "services/common/status.h"
#include "services/common/wiring_message.h"
#include "services/sampler/perturbation.h"

namespace sluice {
namespace {

void ToProto(const SampledToken& sampled, v1::SampledRow& row) {
  if (!sampled.status.ok()) {
    row.set_error_message(std::string(sampled.status.message()));
    row.set_error_code(sampled.status.raw_code());
    return;
  }
  row.set_token_id(sampled.token.id);
  row.set_logprob(sampled.token.logprob);
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

// A sequence whose row failed has ended; the step under way after this one, which nobody wants, goes
// on with the first token of all.
int32_t IdOf(const SampledToken& sampled) { return sampled.status.ok() ? sampled.token.id : 0; }

// Tokens told of that a constraint forces, at most.
constexpr int32_t kMostForced = 64;

// Of up to `most` tokens: those that must follow, or that are likely to because the text must.
void AddWhatFollows(SamplerSequence& sequence, int32_t most, v1::SampledRow& row) {
  const std::vector<int32_t> forced = sequence.Forced(most);
  row.mutable_forced_token_ids()->Add(forced.begin(), forced.end());
  if (!forced.empty()) return;
  const std::vector<int32_t> likely = sequence.Likely(most);
  row.mutable_likely_token_ids()->Add(likely.begin(), likely.end());
}

bool HasDraftBehind(const v1::SamplerExecute& plan, int row) {
  return row + 1 < plan.rows_size() && plan.rows(row + 1).has_draft_token_id();
}

}  // namespace

SamplerSession::SamplerSession(const v1::SamplerOpen& open, const WiringIdentity& wiring,
                               std::shared_ptr<Stream> stream, Sampler& sampler, Backend& backend,
                               ConstraintStore& constraints, ActivationsReceiver& receiver,
                               ChosenTokensPublisher& publisher, std::function<void()> on_step)
    : wiring_(wiring),
      stream_(std::move(stream)),
      sampler_(sampler),
      constraints_(constraints),
      receiver_(receiver),
      publisher_(publisher),
      on_step_(std::move(on_step)),
      backend_(backend),
      rows_(backend, sampler.hidden_size()),
      sequences_(sampler.vocab_size(), &constraints),
      told_options_(sampler.vocab_size()),
      steps_(std::make_shared<Joiner>(open.epoch())) {
  if (open.has_lane() && stream_->on_this_host()) {
    NoteUnused("orchestrator", answers_.Open(open.lane(), wiring_));
  }
}

void SamplerSession::Hurry(const v1::SamplerExecute& plan) {
  if (plan.has_vocabulary()) constraints_.SetVocabulary(plan.vocabulary());
  for (const v1::SamplerSequence& told : plan.sequences()) {
    if (told.has_constraint()) constraints_.Hurry(told.constraint());
  }
}

void SamplerSession::Run() {
  const absl::Status status = Serve();
  if (!status.ok()) Close(status);
}

void SamplerSession::Close(const absl::Status& reason) {
  stream_->Close(reason);
  steps_->Close(reason);
  receiver_.Close(wiring_.epoch, reason);
  publisher_.Close(wiring_.epoch, reason);
}

absl::Status SamplerSession::Serve() {
  RingIntake ring(receiver_, wiring_, backend_);
  receiver_.Open(wiring_, {steps_, &steps_->rows()}, RingIntake::UseOf(backend_));
  publisher_.Open(wiring_);
  v1::SamplerRunResponse response;
  SetWiring(wiring_, *response.mutable_opened());
  OfferLane(*stream_, steps_->plans(), wiring_, *response.mutable_opened());
  stream_->Send(std::move(response));
  absl::Status status;
  while (status.ok()) {
    const absl::StatusOr<v1::SamplerExecute> plan = steps_->NextPlan();
    if (!plan.ok()) return plan.status();
    Hurry(*plan);
    const absl::StatusOr<Prepared> prepared = Prepare(*plan);
    status = prepared.status();
    if (status.ok()) {
      const absl::StatusOr<v1::PushStep> rows = steps_->RowsOf(plan->step_id());
      if (!rows.ok()) return rows.status();
      ring.OpenIfOffered();
      status = Execute(*plan, *prepared, *rows, ring);
    }
    status = Annotate(status, absl::StrCat("step ", plan->step_id()));
  }
  return status;
}

absl::StatusOr<SamplerSession::Prepared> SamplerSession::Prepare(const v1::SamplerExecute& plan) {
  if (absl::Status status = sequences_.Update(plan); !status.ok()) return status;
  told_options_.Drop(plan);
  Prepared prepared;
  prepared.tasks.reserve(plan.rows_size());
  for (int row = 0; row < plan.rows_size(); ++row) {
    if (absl::Status status = PrepareRow(plan, row, prepared); !status.ok()) return status;
  }
  return prepared;
}

absl::Status SamplerSession::PrepareRow(const v1::SamplerExecute& plan, int index,
                                        Prepared& prepared) {
  const v1::SamplerRow& row = plan.rows(index);
  SamplerTask& task = prepared.tasks.emplace_back();
  task.num_logprobs = row.num_logprobs();
  task.processed_logprobs = row.processed_logprobs() && !row.has_score_token_id();
  if (row.perturbed() && !row.has_score_token_id()) {
    task.num_logprobs = static_cast<int>(sampler_.vocab_size());
    task.processed_logprobs = true;
  }
  prepared.sequences.push_back(nullptr);
  if (row.has_score_token_id()) {
    task.token = TokenToScore{row.score_token_id()};
  } else if (std::shared_ptr<const ToldOptions::Told> told = told_options_.Of(row)) {
    task.refusal = told->refusal;
    task.token = SampleRowFor(told->options, row.sequence_index(), row.position());
    prepared.options.push_back(std::move(told));
  } else {
    return PrepareRowOfSequence(plan, index, prepared);
  }
  return absl::OkStatus();
}

absl::Status SamplerSession::PrepareRowOfSequence(const v1::SamplerExecute& plan, int index,
                                                  Prepared& prepared) {
  const v1::SamplerRow& row = plan.rows(index);
  const auto sequence = FindSequence(row);
  if (!sequence.ok()) return sequence.status();
  prepared.sequences.back() = *sequence;
  SamplerTask& task = prepared.tasks.back();
  SampleRow sample = SampleRowFor((*sequence)->options(), row.sequence_index(), row.position());
  const auto allowed = (*sequence)->Allowed();
  task.refusal = allowed.status();
  if (allowed.ok()) sample.allowed = *allowed;
  // The sequence's own is gone with its next row.
  if (!sample.allowed.empty() && (row.has_draft_token_id() || HasDraftBehind(plan, index))) {
    sample.allowed = prepared.masks.emplace_back(sample.allowed.begin(), sample.allowed.end());
  }
  sample.edits = prepared.edits.emplace_back((*sequence)->Edits());
  task.token = sample;
  return absl::OkStatus();
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
  if (sequence.ok()) (*sequence)->past().Append(previous);
  return sequence;
}

absl::Status SamplerSession::Execute(const v1::SamplerExecute& plan, const Prepared& prepared,
                                     const v1::PushStep& rows, RingIntake& ring) {
  const SteadyTime begin = SteadyTime::Now();
  absl::Status status = ring.reader().Load(rows, rows_);
  if (!status.ok()) return status;
  if (rows_.rows() != plan.rows_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(rows_.rows(), " rows for a plan of ", plan.rows_size()));
  }
  const ProgressWatch::Work work(progress(), "step", plan.rows_size());
  absl::StatusOr<std::vector<SampledToken>> sampled = sampler_.Run(rows_.view(), prepared.tasks);
  if (!sampled.ok()) return sampled.status();
  // First: the next step waits for it.
  Publish(rows, *sampled, SteadyTime::Now() - begin);
  ring.Done();
  v1::SamplerRunResponse response;
  v1::SamplerExecuted& executed = *response.mutable_executed();
  executed.set_epoch(plan.epoch());
  executed.set_step_id(plan.step_id());
  for (int row = 0; row < plan.rows_size(); ++row) {
    const SampledToken& token = (*sampled)[row];
    v1::SampledRow& answer = *executed.add_rows();
    ToProto(token, answer);
    const v1::SamplerRow& asked = plan.rows(row);
    if (asked.perturbed() && !asked.has_score_token_id()) {
      AddPerturbed(token, asked, prepared.SeedOf(row), answer);
    } else {
      AddTop(token, answer);
    }
  }
  for (int row = 0; row < plan.rows_size(); ++row) {
    SamplerSequence* sequence = prepared.sequences[row];
    if (sequence == nullptr || plan.rows(row).has_draft_token_id()) continue;
    const int last = Settle(plan, prepared, *sampled, row);
    const int32_t max_forced = std::min(plan.rows(last).max_forced_tokens(), kMostForced);
    if (max_forced == 0 || !(*sampled)[last].status.ok()) continue;
    AddWhatFollows(*sequence, max_forced, *executed.mutable_rows(last));
  }
  answers_.Send(std::move(response),
                [this](v1::SamplerRunResponse&& unsent) { stream_->Send(std::move(unsent)); });
  on_step_();
  return absl::OkStatus();
}

int SamplerSession::Settle(const v1::SamplerExecute& plan, const Prepared& prepared,
                           const std::vector<SampledToken>& sampled, int first) {
  int last = first;
  while (HasDraftBehind(plan, last) && sampled[last].status.ok() &&
         sampled[last].token.id == plan.rows(last + 1).draft_token_id()) {
    ++last;
  }
  SamplerSequence& sequence = *prepared.sequences[first];
  sequence.Truncate(plan.rows(last).position());
  sequence.past().Append(IdOf(sampled[last]));
  return last;
}

void SamplerSession::Publish(const v1::PushStep& rows, const std::vector<SampledToken>& sampled,
                             absl::Duration time) {
  v1::Chosen chosen;
  chosen.set_step_id(rows.step_id());
  *chosen.mutable_computed_ns() = rows.computed_ns();
  chosen.add_computed_ns(static_cast<uint64_t>(absl::ToInt64Nanoseconds(time)));
  for (const SampledToken& token : sampled) chosen.add_token_ids(IdOf(token));
  publisher_.Publish(wiring_.epoch, std::move(chosen));
}

}  // namespace sluice
