#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/launchers.h"
#include "kernels/cuda/kernels/sample_row.h"
#include "kernels/cuda/kernels/sample_weights.h"

namespace sluice::cuda::SIMT_NAMESPACE {
namespace {

constexpr int kThreads = 512;

// A block takes a stretch of a row.
SIMT_KERNEL(kStretchThreads, 4) LookThroughRows(SIMT_TASK SampleTask task) {
  WaitForKernelsBefore();
  StretchLook(task, SharedMemory<double>()).Run();
}

// A block takes a stretch of a row.
SIMT_KERNEL(kStretchThreads, 4) WeighRows(SIMT_TASK SampleTask task) {
  WaitForKernelsBefore();
  StretchWeights(task, SharedMemory<double>()).Run();
}

// A block takes a row.
SIMT_KERNEL(kThreads, 1) SampleRows(SIMT_TASK SampleTask task) {
  WaitForKernelsBefore();
  RowChoice(task, *SharedMemory<SelectShared>()).Run();
}

}  // namespace

void Sample(Stream stream, const SampleTask& task) {
  const LaunchShape by_stretches{.blocks = task.logits.rows * NumStretches(task.logits.cols),
                                 .threads = kStretchThreads,
                                 .shared_bytes = kStretchThreads / kWarpSize * sizeof(double)};
  Launch<LookThroughRows>(stream, by_stretches, task);
  if (task.weighs_all) Launch<WeighRows>(stream, by_stretches, task);
  Launch<SampleRows>(
      stream,
      {.blocks = task.logits.rows, .threads = kThreads, .shared_bytes = sizeof(SelectShared)},
      task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
