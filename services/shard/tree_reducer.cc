#include "services/shard/tree_reducer.h"

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

int64_t TreeReducer::PaddedRows(int64_t max_rows, int num_ranks) {
  return (max_rows + num_ranks - 1) / num_ranks * num_ranks;
}

absl::StatusOr<TreeReducer> TreeReducer::Create(const TreeReducerOptions& options,
                                                Backend& backend) {
  const int ranks = options.num_ranks;
  SLUICE_CHECK(ranks >= 1 && ranks <= kMaxRanks && (ranks & (ranks - 1)) == 0);
  SLUICE_CHECK(options.max_rows >= 1 && options.width >= 1);
  if (ranks == 1) return TreeReducer(options, backend, nullptr);
  const size_t row_bytes = options.width * sizeof(float);
  const int64_t rows = PaddedRows(options.max_rows, ranks);
  const size_t few = ranks * std::min(options.gather_bytes, options.max_rows * row_bytes);
  const size_t many = rows * row_bytes;
  auto memory = backend.Allocate(std::max(few, many));
  if (!memory.ok()) return memory.status();
  return TreeReducer(options, backend, *std::move(memory));
}

absl::Status TreeReducer::Sum(Communicator* communicator, MatrixView partial, Deadline deadline) {
  if (options_.num_ranks == 1) return absl::OkStatus();
  SLUICE_CHECK(communicator != nullptr && communicator->size() == options_.num_ranks);
  SLUICE_CHECK(partial.dtype == DType::kF32 && partial.stride == options_.width);
  SLUICE_CHECK(partial.cols == options_.width && partial.rows >= 1);
  SLUICE_CHECK(partial.rows <= options_.max_rows);
  // The communicator reads the memory itself, so what computes the partial has to be done.
  if (absl::Status done = backend_->Synchronize(); !done.ok()) return done;
  return BytesOf(partial).size() <= options_.gather_bytes
             ? SumAll(*communicator, partial, deadline)
             : SumParts(*communicator, partial, deadline);
}

absl::Status TreeReducer::SumAll(Communicator& communicator, MatrixView partial,
                                 Deadline deadline) {
  MatrixView gathered = WithRows(partial, partial.rows * options_.num_ranks);
  gathered.data = memory_->data();
  absl::Status moved = communicator.AllGather(BytesOf(partial), BytesOf(gathered), deadline);
  if (moved.ok()) AddGathered(partial);
  return moved;
}

absl::Status TreeReducer::SumParts(Communicator& communicator, MatrixView partial,
                                   Deadline deadline) {
  const int64_t rows = PaddedRows(partial.rows, options_.num_ranks);
  const MatrixView padded = WithRows(partial, rows);
  MatrixView parts = padded;
  parts.data = memory_->data();
  absl::Status moved = communicator.AllToAll(BytesOf(padded), BytesOf(parts), deadline);
  if (!moved.ok()) return moved;
  const MatrixView sum = parts.Rows(0, rows / options_.num_ranks);
  AddGathered(sum);
  if (absl::Status done = backend_->Synchronize(); !done.ok()) return done;
  return communicator.AllGather(BytesOf(sum), BytesOf(padded), deadline);
}

void TreeReducer::AddGathered(MatrixView out) {
  MatrixView all = WithRows(out, out.rows * options_.num_ranks);
  all.data = memory_->data();
  std::array<MatrixView, kMaxRanks> terms;
  for (int rank = 0; rank < options_.num_ranks; ++rank) {
    terms[rank] = all.Rows(rank * out.rows, out.rows);
  }
  backend_->TreeAdd({terms.data(), static_cast<size_t>(options_.num_ranks)}, out);
}

}  // namespace sluice
