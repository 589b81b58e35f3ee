#include "orchestrator/pipeline/step_messages.h"

#include "absl/strings/str_cat.h"

namespace sluice {

v1::EmbeddingRunRequest EmbeddingMessage(uint64_t epoch, const Step& step) {
  v1::EmbeddingRunRequest request;
  v1::EmbeddingExecute& execute = *request.mutable_execute();
  execute.set_epoch(epoch);
  execute.set_step_id(step.id);
  for (const Segment& segment : step.segments) {
    if (segment.chosen_by.has_value()) {
      v1::ChosenToken& chosen = *execute.add_chosen_tokens();
      chosen.set_index(execute.token_ids_size());
      chosen.set_step_id(segment.chosen_by->step);
      chosen.set_row(segment.chosen_by->row);
    }
    execute.mutable_token_ids()->Add(segment.tokens.begin(), segment.tokens.end());
    for (size_t i = 0; i < segment.tokens.size(); ++i) {
      execute.add_positions(segment.first_position + static_cast<int32_t>(i));
    }
  }
  return request;
}

v1::ShardRunRequest ShardMessage(uint64_t epoch, const Step& step) {
  v1::ShardRunRequest request;
  v1::ShardExecute& execute = *request.mutable_execute();
  execute.set_epoch(epoch);
  execute.set_step_id(step.id);
  execute.set_after_idle(step.after_idle);
  execute.mutable_ended_sequence_ids()->Add(step.ended.begin(), step.ended.end());
  for (const BlockCopy& copy : step.copies) {
    v1::BlockCopy& message = *execute.add_block_copies();
    message.set_source(copy.source);
    message.set_destination(copy.destination);
  }
  int32_t first_row = 0;
  for (const Segment& segment : step.segments) {
    v1::Segment& message = *execute.add_segments();
    message.set_sequence_id(segment.sequence);
    message.set_first_position(segment.first_position);
    message.set_num_positions(static_cast<int32_t>(segment.tokens.size()));
    message.set_sequence_length(segment.sequence_length);
    message.set_first_block(segment.first_block);
    message.mutable_blocks()->Add(segment.blocks.begin(), segment.blocks.end());
    for (const Row& row : segment.rows) execute.add_output_rows(first_row + row.offset);
    first_row += static_cast<int32_t>(segment.tokens.size());
  }
  return request;
}

absl::StatusOr<std::vector<RowResult>> ResultsFrom(const v1::SamplerExecuted& executed) {
  std::vector<RowResult> results;
  results.reserve(executed.rows_size());
  for (const v1::SampledRow& row : executed.rows()) {
    if (row.top_token_ids_size() != row.top_logprobs_size() ||
        (row.top_perturbed_size() != 0 && row.top_perturbed_size() != row.top_token_ids_size())) {
      return absl::InternalError(absl::StrCat(
          "the sampler answered step ", executed.step_id(), " with ", row.top_token_ids_size(),
          " alternatives and ", row.top_logprobs_size(), " log-probabilities"));
    }
    RowResult& result = results.emplace_back();
    result.token = row.token_id();
    result.logprob = row.logprob();
    result.error = row.error_message();
    if (row.error_code() != 0) result.error_code = static_cast<absl::StatusCode>(row.error_code());
    result.forced.assign(row.forced_token_ids().begin(), row.forced_token_ids().end());
    for (int i = 0; i < row.top_token_ids_size(); ++i) {
      result.top.push_back({.token = row.top_token_ids(i),
                            .logprob = row.top_logprobs(i),
                            .perturbed = row.top_perturbed_size() > 0 ? row.top_perturbed(i) : 0});
    }
  }
  return results;
}

}  // namespace sluice
