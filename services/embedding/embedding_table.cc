#include "services/embedding/embedding_table.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"

namespace sluice {
namespace {

// Bytes that are converted before they are copied to the backend.
constexpr int64_t kStagingBytes = int64_t{1} << 20;

absl::Status CopyTable(const WeightSource& source, MatrixView table, Backend& backend) {
  const int64_t row_bytes = table.cols * static_cast<int64_t>(SizeOf(table.dtype));
  const int64_t step = std::clamp<int64_t>(kStagingBytes / row_bytes, 1, table.rows);
  std::vector<std::byte> staging(step * row_bytes);
  for (int64_t begin = 0; begin < table.rows; begin += step) {
    const IndexRange rows{begin, std::min(begin + step, table.rows)};
    const auto part = absl::MakeSpan(staging).first(rows.size() * row_bytes);
    absl::Status read =
        source.Read(ModelTensor::kEmbedding, {rows, {0, table.cols}}, table.dtype, part);
    if (!read.ok()) return read;
    backend.CopyIn(part, table.Rows(begin, rows.size()).data);
    // `staging` is written again.
    if (absl::Status done = backend.Synchronize(); !done.ok()) return done;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<EmbeddingTable> EmbeddingTable::Load(const ModelConfig& config,
                                                    const WeightSource& source, WeightType weights,
                                                    Backend& backend) {
  const DType dtype = source.Resolve(weights);
  const MatrixShape shape = ShapeOf(ModelTensor::kEmbedding, config);
  auto memory = backend.Allocate(shape.size() * SizeOf(dtype));
  if (!memory.ok()) return memory.status();
  const MatrixView table{(*memory)->data(), dtype, shape.rows, shape.columns, shape.columns};
  const absl::Status copied = CopyTable(source, table, backend);
  if (!copied.ok()) return copied;
  return EmbeddingTable(backend, *std::move(memory), table);
}

absl::Status EmbeddingTable::Embed(absl::Span<const int32_t> ids,
                                   absl::Span<const int32_t> positions, MatrixView out) {
  SLUICE_CHECK(positions.size() == ids.size());
  SLUICE_CHECK(out.rows == static_cast<int64_t>(ids.size()) && out.cols == hidden_size());
  for (size_t t = 0; t < ids.size(); ++t) {
    if (ids[t] < 0 || ids[t] >= vocab_size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("token_ids[", t, "] is ", ids[t], "; accepted: 0 to ", vocab_size() - 1));
    }
  }
  if (!ids.empty()) backend_->EmbeddingGather(table_, ids, out);
  return absl::OkStatus();
}

}  // namespace sluice
