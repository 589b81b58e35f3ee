#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/elements.h"
#include "kernels/cuda/kernels/launchers.h"

namespace sluice::cuda::SIMT_NAMESPACE {
namespace {

// A block normalises one group of a row: thread i has its sum i.
SIMT_KERNEL(kNormSums, 4) NormGroup(SIMT_TASK NormTask task) {
  WaitForKernelsBefore();
  auto* const scratch = SharedMemory<float>();
  const int64_t groups = task.x.cols / task.width;
  const int64_t row = Block() / groups, first = Block() % groups * task.width;
  const float* const x = RowOf(task.x, row) + first;
  const auto size = static_cast<float>(task.width);
  float mean = 0;
  if (task.centred) {
    float sum = 0;
    for (int64_t i = Thread(); i < task.width; i += kNormSums) sum += x[i];
    mean = JoinThreads(sum, Plus(), scratch) / size;
  }
  float squares = 0;
  for (int64_t i = Thread(); i < task.width; i += kNormSums) {
    const float distance = x[i] - mean;
    squares = FusedMultiplyAdd(distance, distance, squares);
  }
  const float variance = JoinThreads(squares, Plus(), scratch) / size;
  const float scale = 1.0f / SquareRoot(variance + task.eps);
  for (int64_t i = Thread(); i < task.width; i += kNormSums) {
    const float scaled = (x[i] - mean) * scale * task.weight[i];
    const float shift = task.bias == nullptr ? 0.0f : task.bias[i];
    StoreElement(task.out, row, first + i, task.bias == nullptr ? scaled : scaled + shift);
  }
}

}  // namespace

void Norm(Stream stream, const NormTask& task) {
  Launch<NormGroup>(stream,
                    {.blocks = task.x.rows * (task.x.cols / task.width),
                     .threads = kNormSums,
                     .shared_bytes = 32 * sizeof(float)},
                    task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
