#include "tests/services/shard/local_pipeline.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "kernels/check.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/state_format.h"
#include "services/model/memory_plan.h"
#include "services/model/shard_plan.h"
#include "tests/kernels/testing/gpu_on_host.h"
#include "tests/kernels/testing/rank_threads.h"
#include "tests/kernels/testing/test_backend.h"

namespace sluice::testing {
namespace {

std::unique_ptr<Backend> NewBackend(const PipelineOptions& options) {
  if (options.gpu_kernels) return NewGpuOnHost({.products = options.gpu_products});
  if (options.plain_kernels) return AsTestBackend(MakeReferenceBackend(options.plain_operands));
  return NewTestBackend({.num_threads = options.num_threads, .instructions = options.instructions});
}

MatrixView View(Buffer& buffer, int64_t rows, int64_t cols) {
  return {buffer.data(), DType::kF32, rows, cols, cols};
}

absl::Span<const std::byte> BytesOf(const std::vector<float>& values) {
  return {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float)};
}
absl::Span<std::byte> BytesOf(std::vector<float>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(float)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<LocalPipeline>> LocalPipeline::Load(const std::string& folder,
                                                                   const PipelineOptions& options) {
  auto config = LoadModelConfig(folder);
  if (!config.ok()) return config.status();
  return LoadAs(*config, folder, options);
}

absl::StatusOr<std::unique_ptr<LocalPipeline>> LocalPipeline::LoadAs(
    const ModelConfig& config, const std::string& folder, const PipelineOptions& options) {
  auto source = WeightSource::Open(folder, config);
  if (!source.ok()) return source.status();
  std::unique_ptr<LocalPipeline> pipeline(new LocalPipeline(config, options));
  pipeline->stages_.resize(options.num_stages);
  const auto places = PublishedPlaces(folder, config);
  if (!places.ok()) return places.status();
  pipeline->places_.emplace(*places);
  absl::Status status = pipeline->LoadEnds(*source);
  for (int stage = 0; stage < options.num_stages && status.ok(); ++stage) {
    status = pipeline->LoadStage(*source, stage);
  }
  if (!status.ok()) return status;
  return pipeline;
}

absl::Status LocalPipeline::LoadEnds(const WeightSource& source) {
  backend_ = NewBackend(options_);
  auto embedding = EmbeddingTable::Load(config_, source, options_.weights, *backend_);
  if (!embedding.ok()) return embedding.status();
  embedding_.emplace(*std::move(embedding));
  auto head = LmHead::Load(config_, source, options_.weights, options_.max_step_rows, *backend_);
  if (!head.ok()) return head.status();
  head_.emplace(*std::move(head));
  return absl::OkStatus();
}

absl::Status LocalPipeline::LoadStage(const WeightSource& source, int stage) {
  Stage& ranks = stages_[stage];
  ranks.resize(options_.num_ranks);
  const std::string group = UniqueGroupName();
  return OnEveryRank(options_.num_ranks, [&](int rank) -> absl::Status {
    Rank& self = ranks[rank];
    self.backend = NewBackend(options_);
    const auto plan = MakeShardPlan(config_, {.num_stages = options_.num_stages,
                                              .num_ranks = options_.num_ranks,
                                              .stage = stage,
                                              .rank = rank});
    if (!plan.ok()) return plan.status();
    ShardModelOptions options{.weights = options_.weights,
                              .kv_dtype = options_.kv_dtype,
                              .block_size = options_.block_size,
                              .max_step_rows = options_.max_step_rows,
                              .max_adapter_rank = options_.max_adapter_rank};
    const uint64_t block_size =
        config_.recurrent() != nullptr ? StatePoolSpec::kRun : options.block_size;
    const uint64_t block_bytes = KvBytesPerPosition(config_, *plan, options.kv_dtype) * block_size;
    const uint64_t slot_bytes = StateSlotBytes(config_, *plan);
    options.num_state_slots = options_.two_state_slots ? 2 : options_.num_blocks;
    // A block of a stage of MLPs alone counts as so many bytes.
    options.kv_cache_bytes = (block_bytes == 0 ? 1024 : block_bytes) * options_.num_blocks +
                             slot_bytes * options.num_state_slots;
    auto model = ShardModel::Load(config_, *plan, source, options, *self.backend);
    if (!model.ok()) return model.status();
    self.model = *std::move(model);
    SLUICE_CHECK(self.model->num_kv_blocks() == options_.num_blocks);
    SLUICE_CHECK(self.model->block_size() == static_cast<int>(block_size));
    const int64_t rows = self.backend->BucketRows(options_.max_step_rows);
    auto hidden = self.backend->Allocate(rows * config_.row_width() * sizeof(float));
    if (!hidden.ok()) return hidden.status();
    self.hidden = *std::move(hidden);
    if (options_.num_ranks == 1) return absl::OkStatus();
    auto communicator = Join(group, rank, options_.num_ranks);
    if (!communicator.ok()) return communicator.status();
    self.communicator = *std::move(communicator);
    return self.model->Join(self.communicator.get(), Deadline::After(absl::Seconds(60)));
  });
}

absl::Status LocalPipeline::LoadAdapter(int slot, const std::string& adapter_folder) {
  auto opened = AdapterSource::Open(adapter_folder, config_, *places_, {});
  if (!opened.ok()) return opened.status();
  const auto source = std::make_shared<const AdapterSource>(*std::move(opened));
  embedding_->LoadAdapter(slot, source);
  absl::Status status = head_->LoadAdapter(slot, *source);
  for (Stage& stage : stages_) {
    for (Rank& rank : stage) {
      if (status.ok()) status = rank.model->LoadAdapter(slot, *source);
    }
  }
  return status;
}

absl::Status LocalPipeline::RunStage(Stage& stage, absl::Span<const ShardSegment> segments,
                                     std::vector<float>& hidden) {
  std::vector<std::vector<float>> results(stage.size(), std::vector<float>(hidden.size()));
  absl::Status status = OnEveryRank(options_.num_ranks, [&](int rank) {
    Rank& self = stage[rank];
    const int64_t width = config_.row_width();
    const auto rows = static_cast<int64_t>(hidden.size()) / width;
    self.backend->CopyIn(BytesOf(std::as_const(hidden)), self.hidden->data());
    absl::Status done = self.model->Forward(segments, View(*self.hidden, rows, width));
    if (!done.ok()) return done;
    return self.backend->CopyOut(self.hidden->data(), BytesOf(results[rank]));
  });
  if (!status.ok()) return status;
  for (const std::vector<float>& result : results) {
    SLUICE_CHECK(std::memcmp(result.data(), results[0].data(), BytesOf(hidden).size()) == 0);
  }
  hidden = std::move(results[0]);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> LocalPipeline::Step(absl::Span<const PipelineSegment> segments) {
  std::vector<int32_t> ids, positions, slots;
  std::vector<ShardSegment> plan;
  for (const PipelineSegment& segment : segments) {
    const auto size = static_cast<int32_t>(segment.ids.size());
    ids.insert(ids.end(), segment.ids.begin(), segment.ids.end());
    positions.resize(ids.size());
    std::iota(positions.end() - size, positions.end(), segment.first_position);
    if (const int32_t source = segment.source_positions; source > 0) {
      for (auto position = positions.end() - size; position != positions.end(); ++position) {
        const int32_t of_text = *position - static_cast<int32_t>(SourceSpec::Filled(source));
        *position = of_text >= 0 ? of_text : -1 - std::min(*position, source - 1);
      }
    }
    const int64_t first_run = std::max(segment.first_position - 1, 0) / StatePoolSpec::kRun;
    absl::Span<const int32_t> state_slots = segment.state_slots;
    if (state_slots.empty() && config_.recurrent() != nullptr) {
      state_slots = absl::MakeConstSpan(segment.block_table).subspan(first_run);
    }
    slots.resize(ids.size(), segment.adapter_slot);
    plan.push_back({.first_position = segment.first_position,
                    .num_positions = size,
                    .block_table = segment.block_table,
                    .sequence_length = segment.sequence_length,
                    .adapter_slot = segment.adapter_slot,
                    .source_positions = segment.source_positions,
                    .state_slots = state_slots});
  }
  const auto rows = static_cast<int64_t>(ids.size());
  auto memory = backend_->Allocate(rows * config_.row_width() * sizeof(float));
  if (!memory.ok()) return memory.status();
  const MatrixView hidden = View(**memory, rows, config_.row_width());
  absl::Status status = embedding_->Embed(ids, positions, slots, hidden);
  std::vector<float> between(rows * config_.row_width());
  if (status.ok()) status = backend_->CopyOut(hidden.data, BytesOf(between));
  for (Stage& stage : stages_) {
    if (status.ok()) status = RunStage(stage, plan, between);
  }
  if (!status.ok()) return status;
  backend_->CopyIn(BytesOf(std::as_const(between)), hidden.data);
  auto logits = backend_->Allocate(rows * config_.vocab_size * sizeof(float));
  if (!logits.ok()) return logits.status();
  head_->Logits(hidden, slots, View(**logits, rows, config_.vocab_size));
  std::vector<float> values(rows * config_.vocab_size);
  status = backend_->CopyOut((*logits)->data(), BytesOf(values));
  if (!status.ok()) return status;
  return values;
}

absl::StatusOr<std::vector<float>> LocalPipeline::Logits(const std::vector<int32_t>& ids,
                                                         const std::vector<int>& chunks) {
  return Feed(ids, 0, chunks);
}

absl::StatusOr<std::vector<float>> LocalPipeline::Generate(const std::vector<int32_t>& ids) {
  std::vector<float> all;
  for (int32_t length = 1; length <= static_cast<int32_t>(ids.size()); ++length) {
    const bool goes_on =
        length > 1 && config_.RopeLengthClass(length) == config_.RopeLengthClass(length - 1);
    const std::vector<int32_t> prefix(ids.begin(), ids.begin() + length);
    const auto logits = Feed(prefix, goes_on ? length - 1 : 0, {options_.max_step_rows});
    if (!logits.ok()) return logits.status();
    all.insert(all.end(), logits->end() - config_.vocab_size, logits->end());
  }
  return all;
}

absl::StatusOr<std::vector<float>> LocalPipeline::Feed(const std::vector<int32_t>& ids,
                                                       int32_t begin,
                                                       const std::vector<int>& chunks) {
  const auto total = static_cast<int32_t>(ids.size());
  PipelineSegment segment{.sequence_length = total,
                          .adapter_slot = adapter_slot_,
                          .source_positions = source_positions_};
  segment.block_table.resize(options_.num_blocks);
  std::iota(segment.block_table.begin(), segment.block_table.end(), 0);
  std::vector<float> all;
  for (int32_t chunk = 0; begin < total; ++chunk) {
    const int32_t size = std::min(total - begin, chunks[chunk % chunks.size()]);
    segment.ids.assign(ids.begin() + begin, ids.begin() + begin + size);
    segment.first_position = begin;
    if (options_.two_state_slots) {
      const int32_t first = std::max(begin - 1, 0) / StatePoolSpec::kRun;
      const int32_t last = (begin + size - 1) / StatePoolSpec::kRun;
      segment.state_slots.assign(last - first + 1, last == first ? slot_ : 1 - slot_);
      segment.state_slots[0] = slot_;
      slot_ = segment.state_slots.back();
    }
    auto logits = Step({&segment, 1});
    if (!logits.ok()) return logits.status();
    all.insert(all.end(), logits->begin(), logits->end());
    begin += size;
  }
  return all;
}

}  // namespace sluice::testing
