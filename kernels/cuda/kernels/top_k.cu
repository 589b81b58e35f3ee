#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/launchers.h"
#include "kernels/cuda/kernels/select.h"

namespace sluice::cuda::SIMT_NAMESPACE {
namespace {

constexpr int kThreads = 512;

// A block takes a row.
SIMT_KERNEL(kThreads, 2) TopKOfRow(SIMT_TASK TopKTask task) {
  WaitForKernelsBefore();
  SelectShared& shared = *SharedMemory<SelectShared>();
  const float* const x = RowOf(task.x, Block());
  const auto key_at = [x](int64_t i) { return OrderedKey(x[i]); };
  const KthLargest cut = FindKthLargest(task.x.cols, task.k, key_at, shared);
  const int64_t first = Block() * task.k;
  const auto write = [&](int64_t place, int64_t i) {
    task.values[first + place] = x[i];
    task.ids[first + place] = static_cast<int32_t>(i);
  };
  WriteLargest(task.x.cols, cut, key_at, write, shared);
}

}  // namespace

void TopK(Stream stream, const TopKTask& task) {
  Launch<TopKOfRow>(
      stream, {.blocks = task.x.rows, .threads = kThreads, .shared_bytes = sizeof(SelectShared)},
      task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
