#include "orchestrator/pipeline/sampler_plans.h"

#include <utility>

#include "kernels/check.h"
#include "orchestrator/pipeline/step_messages.h"
#include "services/messages/sampling_message.h"

namespace sluice {

void SamplerPlans::SetMessage(uint64_t epoch, const Step& step, absl::Span<const RowRequest> rows,
                              v1::StageRunRequest& request) {
  SetStep(epoch, step, *request.mutable_execute());
  v1::SamplerExecute& execute = *request.mutable_execute()->mutable_sampler();
  execute.Clear();
  DropEnded(step, execute);
  if (++num_messages_ % kForgottenAfter == 0) Sweep(execute);
  execute.mutable_rows()->Reserve(static_cast<int>(rows.size()));
  for (const RowRequest& row : rows) AddRow(row, execute);
  int index = 0;
  for (const Segment& segment : step.segments) {
    for (size_t row = 0; row < segment.rows.size(); ++row, ++index) {
      if (segment.adapter_slot < 0 || index >= execute.rows_size()) continue;
      execute.mutable_rows(index)->set_adapter_slot(segment.adapter_slot);
    }
  }
}

// Beams come and go with every step: none is to be kept for long.
void SamplerPlans::DropEnded(const Step& step, v1::SamplerExecute& execute) {
  for (const SequenceId sequence : step.ended) {
    if (sent_.erase(sequence) > 0) execute.add_ended_sequence_ids(sequence);
  }
}

void SamplerPlans::Sweep(v1::SamplerExecute& execute) {
  for (auto it = sent_.begin(); it != sent_.end();) {
    if (num_messages_ - it->second.last_message < kForgottenAfter) {
      ++it;
      continue;
    }
    execute.add_ended_sequence_ids(it->first);
    sent_.erase(it++);
  }
}

void SamplerPlans::AddRow(const RowRequest& row, v1::SamplerExecute& execute) {
  v1::SamplerRow& message = *execute.add_rows();
  message.set_sequence_id(row.sequence);
  message.set_sequence_index(row.sequence_index);
  message.set_position(row.position);
  message.set_num_logprobs(row.num_logprobs);
  if (const auto* score = std::get_if<ScoreTarget>(&row.task)) {
    message.set_score_token_id(score->token);
    return;
  }
  if (const auto* pool = std::get_if<PoolTarget>(&row.task)) {
    message.mutable_pool()->set_is_last(pool->is_last);
    return;
  }
  message.set_processed_logprobs(row.processed_logprobs);
  message.set_perturbed(row.perturbed);
  const auto [found, is_new] = sent_.try_emplace(row.sequence);
  Sent& sent = found->second;
  sent.last_message = num_messages_;
  if (is_new) {
    const SamplingOptions& options = *std::get<const SamplingOptions*>(row.task);
    sent.per_sequence = row.constraint != nullptr || HasSequenceParameters(options);
    if (sent.per_sequence) {
      AddSequence(row, options, execute);
    } else {
      *message.mutable_sample() = ToMessage(options);
    }
  }
  if (!sent.per_sequence) return;
  if (!is_new && row.previous.has_value()) message.set_previous_token_id(*row.previous);
  if (row.draft.has_value()) message.set_draft_token_id(*row.draft);
  message.set_max_forced_tokens(row.max_forced);
}

void SamplerPlans::AddSequence(const RowRequest& row, const SamplingOptions& options,
                               v1::SamplerExecute& execute) {
  SLUICE_CHECK(static_cast<int32_t>(row.tokens.size()) >= row.position);
  v1::SamplerSequence& sent = *execute.add_sequences();
  sent.set_sequence_id(row.sequence);
  *sent.mutable_sampling() = ToMessage(options);
  sent.mutable_stop_token_ids()->Add(row.stop_tokens.begin(), row.stop_tokens.end());
  sent.set_num_prompt_tokens(row.num_prompt_tokens);
  const absl::Span<const TokenId> tokens = row.tokens.first(row.position);
  sent.mutable_token_ids()->Add(tokens.begin(), tokens.end());
  if (row.constraint == nullptr) return;
  sent.mutable_owner()->set_tenant(row.constraint->tenant);
  sent.mutable_owner()->set_weight(row.constraint->tenant_weight);
  SLUICE_CHECK(sent.mutable_constraint()->ParseFromString(row.constraint->constraint));
  if (std::exchange(vocabulary_sent_, true)) return;
  SLUICE_CHECK(execute.mutable_vocabulary()->ParseFromString(*row.constraint->vocabulary));
}

}  // namespace sluice
