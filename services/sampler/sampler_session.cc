#include "services/sampler/sampler_session.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/sampling_options/sampling_check.h"
#include "services/common/status.h"

namespace sluice {
namespace {

SamplingOptions OptionsFrom(const v1::SamplingParameters& sample) {
  return {.temperature = sample.temperature(),
          .top_k = sample.top_k(),
          .top_p = sample.top_p(),
          .seed = sample.seed()};
}

// Borrows the options, which count where the row is to be sampled.
SamplerTask TaskFrom(const v1::SamplerRow& row, const SamplingOptions& options,
                     int64_t vocabulary_size) {
  SamplerTask task;
  task.num_logprobs = row.num_logprobs();
  if (row.has_sample()) {
    task.refusal = CheckSamplingOptions(options, vocabulary_size);
    task.token = SampleRowFor(options, row.sequence_index(), row.position());
  } else {
    task.token = TokenToScore{row.score_token_id()};
  }
  return task;
}

void ToProto(const SampledToken& sampled, v1::SampledRow& row) {
  if (!sampled.status.ok()) {
    row.set_error_message(std::string(sampled.status.message()));
    return;
  }
  row.set_token_id(sampled.token.id);
  row.set_logprob(sampled.token.logprob);
  for (const auto& [id, logprob] : sampled.top) {
    row.add_top_token_ids(id);
    row.add_top_logprobs(logprob);
  }
}

}  // namespace

SamplerSession::SamplerSession(uint64_t epoch, std::shared_ptr<Stream> stream, Sampler& sampler,
                               Backend& backend, ActivationsReceiver& receiver,
                               std::function<void()> on_step)
    : epoch_(epoch),
      stream_(std::move(stream)),
      sampler_(sampler),
      receiver_(receiver),
      on_step_(std::move(on_step)),
      rows_(backend, sampler.hidden_size()) {}

void SamplerSession::Run() {
  const absl::Status status = Serve();
  if (!status.ok()) Close(status);
}

void SamplerSession::Close(const absl::Status& reason) {
  stream_->Close(reason);
  steps_->Close();
  receiver_.Close(epoch_, reason);
}

absl::Status SamplerSession::Serve() {
  receiver_.Open(epoch_, [steps = steps_](uint64_t step_id, v1::Tensor hidden) {
    steps->AddHidden(step_id, std::move(hidden));
  });
  v1::SamplerRunResponse response;
  response.mutable_opened()->set_epoch(epoch_);
  stream_->Send(std::move(response));
  absl::Status status;
  while (status.ok()) {
    const std::optional<Joiner::Step> step = steps_->Next();
    if (!step.has_value()) break;
    status =
        Annotate(Execute(step->plan, step->hidden), absl::StrCat("step ", step->plan.step_id()));
  }
  return status;
}

absl::Status SamplerSession::Execute(const v1::SamplerExecute& plan, const v1::Tensor& hidden) {
  absl::Status status = rows_.Load(hidden);
  if (!status.ok()) return status;
  if (rows_.rows() != plan.rows_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(rows_.rows(), " rows for a plan of ", plan.rows_size()));
  }
  std::vector<SamplerTask> tasks;
  tasks.reserve(plan.rows_size());
  std::vector<SamplingOptions> options;
  options.reserve(plan.rows_size());  // tasks point into it
  for (const v1::SamplerRow& row : plan.rows()) {
    options.push_back(OptionsFrom(row.sample()));
    tasks.push_back(TaskFrom(row, options.back(), sampler_.vocab_size()));
  }
  absl::StatusOr<std::vector<SampledToken>> sampled = sampler_.Run(rows_.view(), tasks);
  if (!sampled.ok()) return sampled.status();
  v1::SamplerRunResponse response;
  v1::SamplerExecuted& executed = *response.mutable_executed();
  executed.set_epoch(plan.epoch());
  executed.set_step_id(plan.step_id());
  for (const SampledToken& token : *sampled) ToProto(token, *executed.add_rows());
  stream_->Send(std::move(response));
  on_step_();
  return absl::OkStatus();
}

}  // namespace sluice
