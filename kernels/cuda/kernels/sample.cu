#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/launchers.h"
#include "kernels/cuda/kernels/sample_row.h"

namespace sluice::cuda::SIMT_NAMESPACE {
namespace {

constexpr int kThreads = 512;

// A block takes a stretch of a row.
SIMT_KERNEL(kStretchThreads, 4) LookThroughRows(SIMT_TASK SampleTask task) {
  WaitForKernelsBefore();
  StretchLook(task, SharedMemory<double>()).Run();
}

// A block takes a row.
SIMT_KERNEL(kThreads, 1) SampleRows(SIMT_TASK SampleTask task) {
  WaitForKernelsBefore();
  RowChoice(task, *SharedMemory<SelectShared>()).Run();
}

}  // namespace

void Sample(Stream stream, const SampleTask& task) {
  Launch<LookThroughRows>(stream,
                          {.blocks = task.logits.rows * NumStretches(task.logits.cols),
                           .threads = kStretchThreads,
                           .shared_bytes = kStretchThreads / kWarpSize * sizeof(double)},
                          task);
  Launch<SampleRows>(
      stream,
      {.blocks = task.logits.rows, .threads = kThreads, .shared_bytes = sizeof(SelectShared)},
      task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
