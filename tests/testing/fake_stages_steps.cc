// What FakeStages does with a step: puts its parts together, writes its tokens into the fake cache, and
// answers with tokens that follow from what stands there.
#include <utility>

#include "kernels/check.h"
#include "tests/testing/fake_stages.h"

namespace sluice::testing {
namespace {

constexpr int32_t kVocabulary = 50;

int32_t NextToken(const std::vector<int32_t>& tokens, uint64_t seed, int sequence_index) {
  uint64_t hash = seed * 31 + static_cast<uint64_t>(sequence_index);
  for (int32_t token : tokens) {
    hash = (hash ^ static_cast<uint64_t>(token)) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return static_cast<int32_t>(hash % kVocabulary);
}

}  // namespace

std::vector<int32_t> FakeTokens(std::vector<int32_t> prompt, uint64_t seed, int sequence_index,
                                int count) {
  std::vector<int32_t> generated;
  for (int i = 0; i < count; ++i) {
    generated.push_back(NextToken(prompt, seed, sequence_index));
    prompt.push_back(generated.back());
  }
  return generated;
}

void FakeStages::Add(const v1::StageExecute& execute,
                     std::function<void(v1::StageRunResponse)> answer) {
  absl::MutexLock lock(&mutex_);
  if (!Runs(execute.epoch())) return;
  Pending& pending = pending_[execute.step_id()];
  pending.step_id = execute.step_id();
  switch (execute.kind_case()) {
    case v1::StageExecute::kEmbedding:
      pending.has_embedding = true;
      pending.embedding = execute.embedding();
      break;
    case v1::StageExecute::kShard:
      ++pending.num_shards;
      pending.shard = execute.shard();
      break;
    case v1::StageExecute::kSampler:
      pending.answer = std::move(answer);
      pending.sampler = execute.sampler();
      break;
    case v1::StageExecute::KIND_NOT_SET:
      break;
  }
  RunIfComplete(execute.step_id());
}

void FakeStages::RunIfComplete(uint64_t step_id) {
  const auto found = pending_.find(step_id);
  Pending& step = found->second;
  if (!step.has_embedding || step.num_shards < options_.num_stages || step.answer == nullptr) {
    return;
  }
  if (!FillIn(step.embedding)) {
    stands_still_ = true;
    return;
  }
  const FakeStep written = Write(step);
  switch (judge_ == nullptr ? Verdict::kAnswer : judge_(written)) {
    case Verdict::kAnswer:
      Answer(step, written);
      break;
    case Verdict::kIgnore:
      break;
    case Verdict::kLose:
      GiveUp();
      break;
  }
  pending_.erase(found);
}

bool FakeStages::FillIn(v1::EmbeddingExecute& embedding) const {
  for (const v1::ChosenToken& token : embedding.chosen_tokens()) {
    const auto found = chosen_.find(token.step_id());
    if (found == chosen_.end()) return false;
    for (int i = 0; i < token.count(); ++i) {
      embedding.set_token_ids(token.index() + i, found->second.at(token.row() + i));
    }
  }
  return true;
}

FakeStep FakeStages::Write(const Pending& step) {
  FakeStep written{.epoch = epoch_, .step_id = step.step_id, .sequences = {}};
  for (const v1::BlockCopy& copy : step.shard.block_copies()) {
    for (int slot = 0; slot < options_.block_size; ++slot) {
      memory_.at(static_cast<size_t>(copy.destination()) * options_.block_size + slot) =
          memory_.at(static_cast<size_t>(copy.source()) * options_.block_size + slot);
    }
  }
  for (const uint64_t sequence : step.shard.ended_sequence_ids()) tables_.erase(sequence);
  int next_token = 0;
  for (const v1::Segment& segment : step.shard.segments()) {
    std::vector<int32_t>& table = tables_[segment.sequence_id()];
    SLUICE_CHECK(segment.first_block() <= std::ssize(table));
    table.resize(segment.first_block());
    table.insert(table.end(), segment.blocks().begin(), segment.blocks().end());
    const auto slot = [&](int position) -> int32_t& {
      return memory_.at(static_cast<size_t>(table.at(position / options_.block_size)) *
                            options_.block_size +
                        position % options_.block_size);
    };
    const int end = segment.first_position() + segment.num_positions();
    for (int position = segment.first_position(); position < end; ++position) {
      SLUICE_CHECK(step.embedding.positions(next_token) == position);
      slot(position) = step.embedding.token_ids(next_token++);
    }
    std::vector<int32_t>& tokens = written.sequences.emplace_back();
    for (int position = 0; position < end; ++position) tokens.push_back(slot(position));
  }
  SLUICE_CHECK(next_token == step.embedding.token_ids_size());
  return written;
}

void FakeStages::Answer(const Pending& step, const FakeStep& written) {
  SLUICE_CHECK(step.shard.output_rows_size() == step.sampler.rows_size());
  v1::StageRunResponse response;
  response.mutable_executed()->set_epoch(written.epoch);
  response.mutable_executed()->set_step_id(written.step_id);
  v1::SamplerExecuted& executed = *response.mutable_executed()->mutable_sampler();
  for (const uint64_t sequence : step.sampler.ended_sequence_ids()) seeds_.erase(sequence);
  for (const v1::SamplerSequence& told : step.sampler.sequences()) seeds_[told.sequence_id()] = 0;
  int segment = 0;
  int first_row = 0;  // of the segment
  for (int i = 0; i < step.sampler.rows_size(); ++i) {
    while (step.shard.output_rows(i) >= first_row + step.shard.segments(segment).num_positions()) {
      first_row += step.shard.segments(segment++).num_positions();
    }
    const v1::SamplerRow& asked = step.sampler.rows(i);
    const int position =
        step.shard.segments(segment).first_position() + step.shard.output_rows(i) - first_row;
    SLUICE_CHECK(asked.position() == position + 1);
    SLUICE_CHECK(asked.sequence_id() == step.shard.segments(segment).sequence_id());
    const std::vector<int32_t>& tokens = written.sequences[segment];
    const std::vector<int32_t> before(tokens.begin(), tokens.begin() + position + 1);
    v1::SampledRow& row = *executed.add_rows();
    const std::string error = row_error_ == nullptr ? "" : row_error_(before);
    if (!error.empty()) {
      row.set_error_message(error);
      row.set_error_code(static_cast<int>(absl::StatusCode::kInternal));
    } else if (asked.has_score_token_id()) {
      row.set_token_id(asked.score_token_id());
      row.set_logprob(-static_cast<float>(position));
    } else {
      if (asked.has_sample()) seeds_[asked.sequence_id()] = asked.sample().seed();
      row.set_token_id(NextToken(before, seeds_.at(asked.sequence_id()), asked.sequence_index()));
      row.set_logprob(-0.5f);
    }
  }
  for (const v1::SampledRow& row : executed.rows()) {
    chosen_[written.step_id].push_back(row.token_id());
  }
  step.answer(std::move(response));
}

}  // namespace sluice::testing
