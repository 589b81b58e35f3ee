#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/elements.h"
#include "kernels/cuda/kernels/launchers.h"

namespace sluice::cuda::SIMT_NAMESPACE {
namespace {

constexpr int kThreads = 256;

// A block copies a row.
SIMT_KERNEL(kThreads, 4) GatherRow(SIMT_TASK GatherRowsTask task) {
  WaitForKernelsBefore();
  const int64_t from = task.rows[Block()];
  float* const out = RowOf(task.out, Block());
  for (int64_t i = Thread(); i < task.out.cols; i += kThreads) {
    out[i] = LoadElement(task.table, from, i);
  }
}

SIMT_KERNEL(kThreads, 4) GatherElement(SIMT_TASK GatherElementsTask task) {
  WaitForKernelsBefore();
  const int64_t i = Block() * kThreads + Thread();
  if (i >= task.count) return;
  task.values[i] = RowOf(task.x, task.elements[i].row)[task.elements[i].col];
}

}  // namespace

void GatherRows(Stream stream, const GatherRowsTask& task) {
  Launch<GatherRow>(stream, {.blocks = task.out.rows, .threads = kThreads}, task);
}

void GatherElements(Stream stream, const GatherElementsTask& task) {
  Launch<GatherElement>(
      stream, {.blocks = (task.count + kThreads - 1) / kThreads, .threads = kThreads}, task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
