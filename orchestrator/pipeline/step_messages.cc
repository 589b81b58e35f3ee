#include "orchestrator/pipeline/step_messages.h"

#include <grpc/status.h>

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "services/model/adapter_id.h"

namespace sluice {
namespace {

// Token `index` of the step. Tokens that rows chose one after another are named together.
void AddChosen(const ChosenBy& chosen, int32_t index, v1::EmbeddingExecute& execute) {
  if (const int size = execute.chosen_tokens_size(); size > 0) {
    v1::ChosenToken& last = *execute.mutable_chosen_tokens(size - 1);
    if (last.step_id() == chosen.step && last.row() + last.count() == chosen.row &&
        last.index() + last.count() == index) {
      last.set_count(last.count() + 1);
      return;
    }
  }
  v1::ChosenToken& run = *execute.add_chosen_tokens();
  run.set_index(index);
  run.set_step_id(chosen.step);
  run.set_row(chosen.row);
  run.set_count(1);
}

// Turns absolute positions into those of a source and of the text behind it.
void CountBySide(const Segment& segment, int32_t* positions) {
  const int32_t begin = FilledSource(segment.source_positions);
  for (size_t i = 0; i < segment.tokens.size(); ++i) {
    const int32_t position = positions[i];
    positions[i] = position >= begin ? position - begin
                                     : -1 - std::min(position, segment.source_positions - 1);
  }
}

// Where a segment has tokens of type 1.
void AddTypes(const Step& step, v1::EmbeddingExecute& execute) {
  const auto has_types = [](const Segment& segment) {
    return segment.second_type_from <
           segment.first_position + static_cast<int32_t>(segment.tokens.size());
  };
  if (std::none_of(step.segments.begin(), step.segments.end(), has_types)) return;
  for (const Segment& segment : step.segments) {
    for (int32_t i = 0; i < static_cast<int32_t>(segment.tokens.size()); ++i) {
      execute.add_token_types(segment.first_position + i >= segment.second_type_from ? 1 : 0);
    }
  }
}

void AddAdapterSlots(const Step& step, v1::EmbeddingExecute& execute) {
  const auto has_adapter = [](const Segment& segment) { return segment.adapter_slot >= 0; };
  if (std::none_of(step.segments.begin(), step.segments.end(), has_adapter)) return;
  for (const Segment& segment : step.segments) {
    for (size_t i = 0; i < segment.tokens.size(); ++i) {
      execute.add_adapter_slots(segment.adapter_slot);
    }
  }
}

// The longest text of a row's error; clients are told it.
constexpr size_t kMaxErrorBytes = 1024;

// An hour: the most that a row can have taken.
constexpr uint64_t kMaxWorkMicroseconds = 3'600'000'000;

// A row with a code has failed, whether or not it says why.
void SetError(const v1::SampledRow& row, RowResult& result) {
  result.error = row.error_message().substr(0, kMaxErrorBytes);
  const bool is_code = row.error_code() > 0 && row.error_code() <= GRPC_STATUS_UNAUTHENTICATED;
  if (is_code) result.error_code = static_cast<absl::StatusCode>(row.error_code());
  if (row.error_code() != 0 && result.error.empty()) {
    result.error = "the sampler does not say why this token could not be chosen";
  }
}

}  // namespace

void SetStep(uint64_t epoch, const Step& step, v1::StageExecute& execute) {
  execute.set_epoch(epoch);
  execute.set_step_id(step.id);
  execute.clear_adapters();
  for (const AdapterChange& change : step.adapters) {
    v1::AdapterSlot& adapter = *execute.add_adapters();
    adapter.set_slot(change.slot);
    adapter.set_id(change.adapter);
    adapter.set_folder(FolderOfAdapter(change.adapter));
  }
}

void SetEmbeddingMessage(uint64_t epoch, const Step& step, v1::StageRunRequest& request) {
  SetStep(epoch, step, *request.mutable_execute());
  v1::EmbeddingExecute& execute = *request.mutable_execute()->mutable_embedding();
  execute.Clear();
  const int32_t num_tokens = step.num_tokens();
  execute.mutable_token_ids()->Resize(num_tokens, 0);
  execute.mutable_positions()->Resize(num_tokens, 0);
  int32_t* const token_ids = execute.mutable_token_ids()->mutable_data();
  int32_t* const positions = execute.mutable_positions()->mutable_data();
  int32_t index = 0;
  for (const Segment& segment : step.segments) {
    if (segment.chosen_by.has_value()) AddChosen(*segment.chosen_by, index, execute);
    const auto count = static_cast<int32_t>(segment.tokens.size());
    std::copy_n(segment.tokens.data(), count, token_ids + index);
    std::iota(positions + index, positions + index + count, segment.first_position);
    if (segment.source_positions > 0) CountBySide(segment, positions + index);
    index += count;
  }
  AddTypes(step, execute);
  AddAdapterSlots(step, execute);
}

void SetShardMessage(uint64_t epoch, const Step& step, v1::StageRunRequest& request) {
  SetStep(epoch, step, *request.mutable_execute());
  v1::ShardExecute& execute = *request.mutable_execute()->mutable_shard();
  execute.Clear();
  execute.set_after_idle(step.after_idle);
  execute.mutable_ended_sequence_ids()->Add(step.ended.begin(), step.ended.end());
  for (const BlockCopy& copy : step.copies) {
    v1::BlockCopy& message = *execute.add_block_copies();
    message.set_source(copy.source);
    message.set_destination(copy.destination);
  }
  for (const StateCopy& copy : step.state_copies) {
    v1::StateCopy& message = *execute.add_state_copies();
    message.set_source(copy.source);
    message.set_destination(copy.destination);
  }
  execute.mutable_segments()->Reserve(static_cast<int>(step.segments.size()));
  execute.mutable_output_rows()->Reserve(step.num_rows());
  int32_t first_row = 0;
  for (const Segment& segment : step.segments) {
    v1::Segment& message = *execute.add_segments();
    message.set_sequence_id(segment.sequence);
    message.set_first_position(segment.first_position);
    message.set_num_positions(static_cast<int32_t>(segment.tokens.size()));
    message.set_sequence_length(segment.sequence_length);
    message.set_first_block(segment.first_block);
    message.set_source_positions(segment.source_positions);
    if (segment.adapter_slot >= 0) message.set_adapter_slot(segment.adapter_slot);
    if (!segment.blocks.empty()) {
      message.mutable_blocks()->Add(segment.blocks.begin(), segment.blocks.end());
    }
    if (!segment.state_slots.empty()) {
      message.mutable_state_slots()->Add(segment.state_slots.begin(), segment.state_slots.end());
    }
    for (const Row& row : segment.rows) {
      execute.mutable_output_rows()->AddAlreadyReserved(first_row + row.offset);
    }
    first_row += static_cast<int32_t>(segment.tokens.size());
  }
}

absl::StatusOr<std::vector<RowResult>> ResultsFrom(const v1::StageExecuted& executed) {
  std::vector<RowResult> results;
  results.reserve(executed.sampler().rows_size());
  for (const v1::SampledRow& row : executed.sampler().rows()) {
    if (row.top_token_ids_size() != row.top_logprobs_size() ||
        (row.top_perturbed_size() != 0 && row.top_perturbed_size() != row.top_token_ids_size())) {
      return absl::InternalError(absl::StrCat(
          "the sampler answered step ", executed.step_id(), " with ", row.top_token_ids_size(),
          " alternatives and ", row.top_logprobs_size(), " log-probabilities"));
    }
    RowResult& result = results.emplace_back();
    result.token = row.token_id();
    result.logprob = row.logprob();
    SetError(row, result);
    result.deferred = row.deferred();
    if (row.work_us() != 0) {
      result.work = absl::Microseconds(std::min<uint64_t>(row.work_us(), kMaxWorkMicroseconds));
    }
    result.forced.assign(row.forced_token_ids().begin(), row.forced_token_ids().end());
    result.embedding.assign(row.embedding().begin(), row.embedding().end());
    result.likely.assign(row.likely_token_ids().begin(), row.likely_token_ids().end());
    for (int i = 0; i < row.top_token_ids_size(); ++i) {
      result.top.push_back({.token = row.top_token_ids(i),
                            .logprob = row.top_logprobs(i),
                            .perturbed = row.top_perturbed_size() > 0 ? row.top_perturbed(i) : 0});
    }
  }
  return results;
}

}  // namespace sluice
