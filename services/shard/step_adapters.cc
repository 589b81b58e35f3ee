#include "services/shard/step_adapters.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"
#include "kernels/rank_group.h"

namespace sluice {
namespace {

int MostChosen(const ModelConfig& config, const ShardPlan& plan) {
  int most = 1;
  for (int64_t layer = plan.layers.begin; layer < plan.layers.end; ++layer) {
    const MixtureSpec* const mixture = MixtureOf(config.layers[layer]);
    if (mixture != nullptr) most = std::max(most, mixture->router.num_chosen);
  }
  return most;
}

absl::Status GrowBuffer(Backend& backend, size_t bytes, std::unique_ptr<Buffer>& buffer) {
  if (buffer != nullptr && buffer->size_bytes() >= bytes) return absl::OkStatus();
  auto memory = backend.Allocate(bytes);
  if (!memory.ok()) return memory.status();
  buffer = *std::move(memory);
  return absl::OkStatus();
}

MatrixView FloatsIn(const std::unique_ptr<Buffer>& buffer, int64_t rows, int64_t columns) {
  return {buffer->data(), DType::kF32, rows, columns, columns};
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepAdapters>> StepAdapters::Create(const ModelConfig& config,
                                                                   const ShardPlan& plan,
                                                                   int64_t max_rows, int max_rank,
                                                                   Backend& backend) {
  if (max_rank > 0 && backend.adapters() == nullptr) {
    return absl::UnimplementedError(absl::StrCat("adapters are not computed by ",
                                                 std::string(backend.name()),
                                                 "; accepted with adapters: --device cpu"));
  }
  auto adapters = std::unique_ptr<StepAdapters>(
      new StepAdapters(max_rows * MostChosen(config, plan), max_rank, backend));
  const int ranks = plan.placement.num_ranks;
  if (max_rank == 0 || ranks == 1) return adapters;
  const int64_t width = PaddedRank(max_rank);
  auto group =
      backend.NewRankGroup({.num_ranks = ranks, .max_rows = adapters->max_rows_, .width = width});
  if (!group.ok()) return group.status();
  adapters->ranks_ = *std::move(group);
  const size_t bytes = PaddedRows(adapters->max_rows_, ranks) * width * sizeof(float);
  absl::Status status = GrowBuffer(backend, bytes, adapters->joined_);
  if (status.ok()) status = GrowBuffer(backend, bytes, adapters->zeros_);
  if (!status.ok()) return status;
  return adapters;
}

absl::Status StepAdapters::Join(Communicator* communicator, Deadline deadline) {
  return ranks_ == nullptr ? absl::OkStatus() : ranks_->Join(communicator, deadline);
}

absl::Status StepAdapters::Set(int slot, std::shared_ptr<const AdapterWeights> weights) {
  SLUICE_CHECK(slot >= 0);
  if (static_cast<size_t>(slot) >= slots_.size()) slots_.resize(slot + 1);
  if (weights != nullptr) {
    int64_t width = std::max(sums_width_, PaddedRank(max_rank_));
    for (const auto& [matrix, factors] : weights->factors()) width = std::max(width, factors.rank);
    // Ranks exchange whole parts of the rows.
    const int64_t rows = PaddedRows(max_rows_, 8);
    const absl::Status grown = GrowBuffer(backend_, rows * width * sizeof(float), sums_);
    if (!grown.ok()) return grown;
    sums_width_ = width;
  }
  slots_[slot] = std::move(weights);
  return absl::OkStatus();
}

size_t StepAdapters::size_bytes() const {
  size_t bytes = 0;
  for (const auto& slot : slots_) bytes += slot == nullptr ? 0 : slot->size_bytes();
  return bytes;
}

absl::Status StepAdapters::Begin(absl::Span<const ShardSegment> segments, Deadline deadline) {
  slots_of_rows_.clear();
  active_.clear();
  const bool any = std::any_of(segments.begin(), segments.end(),
                               [](const ShardSegment& each) { return each.adapter_slot >= 0; });
  if (!any) return absl::OkStatus();
  for (size_t i = 0; i < segments.size(); ++i) {
    const int32_t slot = segments[i].adapter_slot;
    if (slot >= 0 && !Has(slot)) {
      return absl::InvalidArgumentError(
          absl::StrCat("segment ", i, " names adapter slot ", slot, ", which is empty"));
    }
    slots_of_rows_.insert(slots_of_rows_.end(), segments[i].num_positions, slot);
    if (slot >= 0 && std::find(active_.begin(), active_.end(), slot) == active_.end()) {
      active_.push_back(slot);
    }
  }
  if (ranks_ != nullptr) ranks_->BeginStep(deadline);
  return absl::OkStatus();
}

void StepAdapters::End() {
  active_.clear();
  if (ranks_ != nullptr) ranks_->BeginStep(Deadline::Never());
}

FactorsBySlot StepAdapters::Of(TensorId matrix) {
  if (active_.empty()) return {};
  bool any = false;
  factors_.assign(slots_.size(), nullptr);
  for (const int32_t slot : active_) {
    factors_[slot] = slots_[slot]->Of(matrix);
    any = any || factors_[slot] != nullptr;
  }
  return any ? FactorsBySlot(factors_) : FactorsBySlot();
}

FactorsBySlot StepAdapters::OfExperts(TensorId matrix, int num_experts) {
  if (active_.empty()) return {};
  bool any = false;
  factors_.assign(slots_.size() * num_experts, nullptr);
  for (const int32_t slot : active_) {
    for (matrix.expert = 0; matrix.expert < num_experts; ++matrix.expert) {
      const AdapterFactors* const factors = slots_[slot]->Of(matrix);
      factors_[slot * num_experts + matrix.expert] = factors;
      any = any || factors != nullptr;
    }
  }
  return any ? FactorsBySlot(factors_) : FactorsBySlot();
}

MatrixView StepAdapters::Sums(int64_t rows, FactorsBySlot factors) const {
  int64_t width = 0;
  for (const AdapterFactors* each : factors) {
    if (each != nullptr) width = std::max(width, each->rank);
  }
  return FloatsIn(sums_, rows, width);
}

MatrixView StepAdapters::PartialSums(int64_t rows) const {
  return FloatsIn(sums_, rows, PaddedRank(max_rank_));
}

absl::StatusOr<MatrixView> StepAdapters::JoinSums(MatrixView partial) {
  if (ranks_ == nullptr) return partial;
  const MatrixView joined = FloatsIn(joined_, partial.rows, partial.cols);
  const MatrixView zeros = FloatsIn(zeros_, partial.rows, partial.cols);
  backend_.TreeAdd({&zeros, 1}, joined);
  const absl::Status sent = ranks_->SumToResidual(partial, {.residual = joined});
  if (!sent.ok()) return sent;
  return joined;
}

absl::StatusOr<StepAdapters::AddendMemory> StepAdapters::Addends(int64_t rows, int64_t columns) {
  absl::Status grown = GrowBuffer(backend_, rows * columns * sizeof(float), addends_);
  if (grown.ok()) grown = GrowBuffer(backend_, rows, addend_rows_);
  if (!grown.ok()) return grown;
  return AddendMemory{.values = FloatsIn(addends_, rows, columns),
                      .rows = static_cast<uint8_t*>(addend_rows_->data())};
}

}  // namespace sluice
