#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/launchers.h"
#include "kernels/cuda/kernels/norm_row.h"

namespace sluice::cuda::SIMT_NAMESPACE {
namespace {

// A block normalises one group of a row: thread i has its sum i. Weights, which no kernel writes,
// come while the kernels before this one end.
SIMT_KERNEL(kNormSums, 2) NormGroup(SIMT_TASK NormTask task) {
  LetKernelsBehindBegin();
  Held held, weights;
  Load(task.weight, task.width, weights);
  WaitForKernelsBefore();
  auto* const scratch = SharedMemory<float>();
  const int64_t groups = task.x.cols / task.width;
  const int64_t row = Block() / groups, first = Block() % groups * task.width;
  const float* const x = RowOf(task.x, row) + first;
  Load(x, task.width, held);
  const NormParameters norm{task.weight, task.bias, task.eps, task.centred};
  NormHeld(x, task.width, held, weights, norm, task.out, row, first, scratch);
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
