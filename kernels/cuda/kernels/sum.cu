#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/launchers.h"
#include "kernels/cuda/kernels/norm_row.h"

namespace sluice::cuda::SIMT_NAMESPACE {
namespace {

// The tree over element [row, i] of the partials.
template <int kCount>
SIMT_DEVICE float TreeSum(const SumToResidualTask& task, int64_t row, int64_t i) {
  float sums[kCount];
  SIMT_UNROLL
  for (int rank = 0; rank < kCount; ++rank) sums[rank] = RowOf(task.partials[rank], row)[i];
  SIMT_UNROLL
  for (int step = 1; step < kCount; step *= 2) {
    SIMT_UNROLL
    for (int rank = 0; rank + step < kCount; rank += 2 * step) sums[rank] += sums[rank + step];
  }
  return sums[0];
}

// Adds to the thread's numbers of the residual stream from `begin` on; `added` is what they are then. All
// are asked for before the first is written: the compiler does not know that writing changes no partial.
template <int kCount>
SIMT_DEVICE void AddHeld(const SumToResidualTask& task, int64_t begin, Held& added) {
  const int64_t width = task.residual.cols;
  float* const residual = RowOf(task.residual, Block());
  Load(residual + begin, width - begin, added);
  SIMT_UNROLL
  for (int j = 0; j < kHeld; ++j) {
    const int64_t i = begin + j * kNormSums + Thread();
    if (i >= width) continue;
    float sum = TreeSum<kCount>(task, Block(), i);
    if (task.bias != nullptr) sum += task.bias[i];
    added[j] += sum;
  }
  SIMT_UNROLL
  for (int j = 0; j < kHeld; ++j) {
    const int64_t i = begin + j * kNormSums + Thread();
    if (i < width) residual[i] = added[j];
  }
}

// A block has a row, each thread the numbers that it then normalises: of rows up to 4,096 they stay in
// its registers. Weights, which no kernel writes, come while those before end.
template <int kCount>
SIMT_KERNEL(kNormSums, 2)
AddSum(SIMT_TASK SumToResidualTask task) {
  LetKernelsBehindBegin();
  Held held, weights;
  const int64_t width = task.residual.cols;
  const bool has_norm = task.normed.data != nullptr;
  if (has_norm) Load(task.norm_weight, width, weights);
  WaitForKernelsBefore();
  for (int64_t begin = kHeld * kNormSums; begin < width; begin += kHeld * kNormSums) {
    AddHeld<kCount>(task, begin, held);
  }
  AddHeld<kCount>(task, 0, held);
  if (!has_norm) return;
  const NormParameters norm{task.norm_weight, task.norm_bias, task.eps, task.centred};
  NormHeld(RowOf(task.residual, Block()), width, held, weights, norm, task.normed, Block(), 0,
           SharedMemory<float>());
}

template <int kCount>
void LaunchSum(Stream stream, const SumToResidualTask& task) {
  Launch<AddSum<kCount>>(
      stream,
      {.blocks = task.residual.rows, .threads = kNormSums, .shared_bytes = 32 * sizeof(float)},
      task);
}

}  // namespace

void SumToResidual(Stream stream, const SumToResidualTask& task) {
  switch (task.count) {
    case 1:
      return LaunchSum<1>(stream, task);
    case 2:
      return LaunchSum<2>(stream, task);
    case 4:
      return LaunchSum<4>(stream, task);
    default:
      return LaunchSum<8>(stream, task);
  }
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
