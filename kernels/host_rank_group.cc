#include "kernels/host_rank_group.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/types/span.h"
#include "kernels/check.h"

namespace sluice {
namespace {

constexpr int kMaxRanks = 8;

absl::Span<std::byte> BytesOf(MatrixView matrix) {
  return {static_cast<std::byte*>(matrix.data),
          static_cast<size_t>(matrix.rows * matrix.cols) * SizeOf(matrix.dtype)};
}

MatrixView WithRows(MatrixView matrix, int64_t rows) {
  matrix.rows = rows;
  return matrix;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankGroup>> HostRankGroup::Create(const RankGroupSpec& spec,
                                                                 Backend& backend) {
  const int ranks = spec.num_ranks;
  SLUICE_CHECK(ranks >= 1 && ranks <= kMaxRanks && (ranks & (ranks - 1)) == 0);
  SLUICE_CHECK(spec.max_rows >= 1 && spec.width >= 1);
  const size_t row_bytes = spec.width * sizeof(float);
  const size_t few = ranks * std::min(spec.gather_bytes, spec.max_rows * row_bytes);
  const size_t many = PaddedRows(spec.max_rows, ranks) * row_bytes;
  auto memory = backend.Allocate(std::max(few, many));
  if (!memory.ok()) return memory.status();
  return std::unique_ptr<RankGroup>(new HostRankGroup(spec, backend, *std::move(memory)));
}

void HostRankGroup::BeginStep(Communicator* communicator, Deadline deadline) {
  SLUICE_CHECK(communicator != nullptr && communicator->size() == spec_.num_ranks);
  communicator_ = communicator;
  deadline_ = deadline;
}

absl::Status HostRankGroup::Sum(MatrixView partial) {
  SLUICE_CHECK(communicator_ != nullptr);
  SLUICE_CHECK(partial.dtype == DType::kF32 && partial.stride == spec_.width);
  SLUICE_CHECK(partial.cols == spec_.width && partial.rows >= 1);
  SLUICE_CHECK(partial.rows <= spec_.max_rows);
  return BytesOf(partial).size() <= spec_.gather_bytes ? SumAll(partial) : SumParts(partial);
}

absl::Status HostRankGroup::SumAll(MatrixView partial) {
  MatrixView gathered = WithRows(partial, partial.rows * spec_.num_ranks);
  gathered.data = memory_->data();
  absl::Status moved = communicator_->AllGather(BytesOf(partial), BytesOf(gathered), deadline_);
  if (moved.ok()) AddGathered(partial);
  return moved;
}

absl::Status HostRankGroup::SumParts(MatrixView partial) {
  const int64_t rows = PaddedRows(partial.rows, spec_.num_ranks);
  const MatrixView padded = WithRows(partial, rows);
  MatrixView parts = padded;
  parts.data = memory_->data();
  absl::Status moved = communicator_->AllToAll(BytesOf(padded), BytesOf(parts), deadline_);
  if (!moved.ok()) return moved;
  const MatrixView sum = parts.Rows(0, rows / spec_.num_ranks);
  AddGathered(sum);
  return communicator_->AllGather(BytesOf(sum), BytesOf(padded), deadline_);
}

void HostRankGroup::AddGathered(MatrixView out) {
  MatrixView all = WithRows(out, out.rows * spec_.num_ranks);
  all.data = memory_->data();
  std::array<MatrixView, kMaxRanks> terms;
  for (int rank = 0; rank < spec_.num_ranks; ++rank) {
    terms[rank] = all.Rows(rank * out.rows, out.rows);
  }
  backend_.TreeAdd({terms.data(), static_cast<size_t>(spec_.num_ranks)}, out);
}

}  // namespace sluice
