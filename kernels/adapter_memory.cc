#include "kernels/adapter_memory.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

constexpr size_t kFactorAlignment = 64;
constexpr size_t kFactorBlockBytes = size_t{1} << 20;

// [columns, rows] of a matrix [rows, columns].
std::vector<float> TransposedFactors(absl::Span<const float> matrix, int64_t rows,
                                     int64_t columns) {
  std::vector<float> turned(matrix.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      turned[column * rows + row] = matrix[row * columns + column];
    }
  }
  return turned;
}

}  // namespace

absl::StatusOr<AdapterFactors> AdapterMemory::Add(absl::Span<const PlainAdapter> parts,
                                                  int64_t num_inputs, int num_slices) {
  AdapterFactors factors{.num_inputs = num_inputs, .num_slices = num_slices};
  int64_t rank = 0;
  for (const PlainAdapter& part : parts) {
    const int shared = part.shares_a_with;
    factors.outputs.push_back({.first_output = part.first_output,
                               .num_outputs = part.num_outputs,
                               .first_rank = shared < 0 ? rank : factors.outputs[shared].first_rank,
                               .rank = part.rank});
    if (shared < 0) rank += part.rank;
  }
  factors.rank = PaddedRank(rank);
  std::vector<float> a(factors.rank * num_inputs);
  for (size_t i = 0; i < parts.size(); ++i) {
    const PlainAdapter& part = parts[i];
    AdapterOutputs& outputs = factors.outputs[i];
    for (int64_t r = 0; r < part.rank; ++r) {
      const int64_t to = outputs.first_rank + r;
      float* const column =
          a.data() + to / kAdapterRankStep * num_inputs * kAdapterRankStep + to % kAdapterRankStep;
      const float* const from = part.a.data() + r * num_inputs;
      for (int64_t k = 0; k < num_inputs; ++k) column[k * kAdapterRankStep] = from[k];
    }
    const auto kept = Keep(TransposedFactors(part.b, part.num_outputs, part.rank));
    if (!kept.ok()) return kept.status();
    outputs.b = *kept;
  }
  const auto kept = Keep(a);
  if (!kept.ok()) return kept.status();
  factors.a = *kept;
  return factors;
}

absl::StatusOr<const float*> AdapterMemory::Keep(absl::Span<const float> values) {
  const size_t wanted = values.size() * sizeof(float);
  const size_t bytes = (wanted + kFactorAlignment - 1) / kFactorAlignment * kFactorAlignment;
  if (bytes > left_) {
    const size_t size = std::max(bytes, kFactorBlockBytes);
    auto memory = device_->Allocate(size);
    if (!memory.ok()) return memory.status();
    blocks_.push_back(*std::move(memory));
    next_ = static_cast<std::byte*>(blocks_.back()->data());
    left_ = size;
  }
  std::byte* const place = next_;
  device_->CopyIn({reinterpret_cast<const std::byte*>(values.data()), wanted}, place);
  next_ += bytes;
  left_ -= bytes;
  return reinterpret_cast<const float*>(place);
}

size_t AdapterMemory::size_bytes() const {
  size_t bytes = 0;
  for (const auto& block : blocks_) bytes += block->size_bytes();
  return bytes;
}

}  // namespace sluice
