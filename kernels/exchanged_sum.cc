#include "kernels/exchanged_sum.h"

#include <algorithm>

#include "absl/types/span.h"
#include "kernels/check.h"

namespace sluice {
namespace {

absl::Span<std::byte> BytesOf(MatrixView matrix) {
  return {static_cast<std::byte*>(matrix.data),
          static_cast<size_t>(matrix.rows * matrix.cols) * SizeOf(matrix.dtype)};
}

MatrixView WithRows(MatrixView matrix, int64_t rows) {
  matrix.rows = rows;
  return matrix;
}

size_t LargestPartial(const RankGroupSpec& spec) {
  return PaddedRows(spec.max_rows, spec.num_ranks) * spec.width * sizeof(float);
}

}  // namespace

absl::StatusOr<ExchangedSum> ExchangedSum::Create(const RankGroupSpec& spec, Backend& backend) {
  const int ranks = spec.num_ranks;
  SLUICE_CHECK(ranks >= 1 && ranks <= kMaxRanks && (ranks & (ranks - 1)) == 0);
  SLUICE_CHECK(spec.max_rows >= 1 && spec.width >= 1);
  const size_t row_bytes = spec.width * sizeof(float);
  const size_t few = ranks * std::min(spec.gather_bytes, spec.max_rows * row_bytes);
  auto memory = backend.Allocate(std::max(few, LargestPartial(spec)));
  if (!memory.ok()) return memory.status();
  return ExchangedSum(spec, backend, *std::move(memory));
}

size_t ExchangedSum::largest_message() const { return LargestPartial(spec_); }

absl::Status ExchangedSum::SumToResidual(MatrixView partial, const ResidualUpdate& update,
                                         RankExchange& exchange) {
  SLUICE_CHECK(partial.dtype == DType::kF32 && partial.stride == spec_.width);
  SLUICE_CHECK(partial.cols == spec_.width && partial.rows >= 1);
  SLUICE_CHECK(partial.rows <= spec_.max_rows && partial.rows == update.residual.rows);
  return BytesOf(partial).size() <= spec_.gather_bytes ? SumAll(partial, update, exchange)
                                                       : SumParts(partial, update, exchange);
}

absl::Status ExchangedSum::SumAll(MatrixView partial, const ResidualUpdate& update,
                                  RankExchange& exchange) {
  MatrixView gathered = WithRows(partial, partial.rows * spec_.num_ranks);
  gathered.data = memory_->data();
  absl::Status moved = exchange.AllGather(BytesOf(partial), BytesOf(gathered));
  if (moved.ok()) backend_->TreeAddToResidual(Gathered(partial).span(), update);
  return moved;
}

absl::Status ExchangedSum::SumParts(MatrixView partial, const ResidualUpdate& update,
                                    RankExchange& exchange) {
  const int64_t rows = PaddedRows(partial.rows, spec_.num_ranks);
  const MatrixView padded = WithRows(partial, rows);
  MatrixView parts = padded;
  parts.data = memory_->data();
  absl::Status moved = exchange.AllToAll(BytesOf(padded), BytesOf(parts));
  if (!moved.ok()) return moved;
  const MatrixView sum = parts.Rows(0, rows / spec_.num_ranks);
  backend_->TreeAdd(Gathered(sum).span(), sum);
  moved = exchange.AllGather(BytesOf(sum), BytesOf(padded));
  if (moved.ok()) backend_->TreeAddToResidual({&partial, 1}, update);
  return moved;
}

ExchangedSum::Terms ExchangedSum::Gathered(MatrixView one) const {
  MatrixView all = WithRows(one, one.rows * spec_.num_ranks);
  all.data = memory_->data();
  Terms terms{.count = static_cast<size_t>(spec_.num_ranks)};
  for (int rank = 0; rank < spec_.num_ranks; ++rank) {
    terms.matrices[rank] = all.Rows(rank * one.rows, one.rows);
  }
  return terms;
}

}  // namespace sluice
