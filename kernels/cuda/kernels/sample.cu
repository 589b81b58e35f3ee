#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/launchers.h"
#include "kernels/cuda/kernels/sample_row.h"

namespace sluice::cuda::SIMT_NAMESPACE {
namespace {

constexpr int kThreads = 512;

// A block takes a row.
SIMT_KERNEL(kThreads, 1) SampleRows(SIMT_TASK SampleTask task) {
  WaitForKernelsBefore();
  RowChoice(task, *SharedMemory<SelectShared>()).Run();
}

}  // namespace

void Sample(Stream stream, const SampleTask& task) {
  Launch<SampleRows>(
      stream,
      {.blocks = task.logits.rows, .threads = kThreads, .shared_bytes = sizeof(SelectShared)},
      task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
