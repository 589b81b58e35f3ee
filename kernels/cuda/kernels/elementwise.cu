#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/elements.h"
#include "kernels/cuda/kernels/exponential.h"
#include "kernels/cuda/kernels/launchers.h"

namespace sluice::cuda::SIMT_NAMESPACE {
namespace {

constexpr int kThreads = 256;
constexpr int kElementsPerThread = 4;

int64_t BlocksFor(int64_t elements) {
  constexpr int64_t kPerBlock = kThreads * kElementsPerThread;
  return (elements + kPerBlock - 1) / kPerBlock;
}

// Calls f(row, col) for the block's elements of a matrix.
template <class F>
SIMT_DEVICE void ForElements(int64_t rows, int64_t cols, F f) {
  const int64_t begin = Block() * kThreads * kElementsPerThread + Thread();
  SIMT_UNROLL
  for (int i = 0; i < kElementsPerThread; ++i) {
    const int64_t index = begin + i * kThreads;
    if (index < rows * cols) f(index / cols, index % cols);
  }
}

SIMT_KERNEL(kThreads, 4) ChangeElements(SIMT_TASK ElementwiseTask task) {
  WaitForKernelsBefore();
  ForElements(task.x.rows, task.x.cols, [&](int64_t row, int64_t col) {
    float* const x = RowOf(task.x, row) + col;
    switch (task.kind) {
      case ElementwiseKind::kScale:
        *x *= task.factor;
        break;
      case ElementwiseKind::kAdd:
        *x += RowOf(task.operand, row)[col];
        break;
      case ElementwiseKind::kScaleRows:
        *x *= *RowOf(task.operand, row);
        break;
      case ElementwiseKind::kSoftCap:
        *x = SoftCapped(*x, task.factor);
        break;
    }
  });
}

SIMT_KERNEL(kThreads, 4) AddTree(SIMT_TASK TreeAddTask task) {
  WaitForKernelsBefore();
  ForElements(task.out.rows, task.out.cols, [&](int64_t row, int64_t col) {
    float sums[kMostPartials];
    SIMT_UNROLL
    for (int i = 0; i < kMostPartials; ++i) {
      if (i < task.count) sums[i] = RowOf(task.partials[i], row)[col];
    }
    SIMT_UNROLL
    for (int step = 1; step < kMostPartials; step *= 2) {
      SIMT_UNROLL
      for (int i = 0; i + step < kMostPartials; i += 2 * step) {
        if (i + step < task.count) sums[i] += sums[i + step];
      }
    }
    RowOf(task.out, row)[col] = sums[0];
  });
}

SIMT_KERNEL(kThreads, 4) RearrangeElements(SIMT_TASK RearrangeTask task) {
  WaitForKernelsBefore();
  ForElements(task.out.rows, task.out.cols, [&](int64_t row, int64_t col) {
    const int64_t run = col / task.padded_depth, k = col % task.padded_depth;
    const float value = k < task.depth ? LoadElement(task.x, row, run * task.depth + k) : 0.0f;
    StoreElement(task.out, row, col, value);
  });
}

}  // namespace

void Elementwise(Stream stream, const ElementwiseTask& task) {
  Launch<ChangeElements>(
      stream, {.blocks = BlocksFor(task.x.rows * task.x.cols), .threads = kThreads}, task);
}

void TreeAdd(Stream stream, const TreeAddTask& task) {
  Launch<AddTree>(stream, {.blocks = BlocksFor(task.out.rows * task.out.cols), .threads = kThreads},
                  task);
}

void Rearrange(Stream stream, const RearrangeTask& task) {
  Launch<RearrangeElements>(
      stream, {.blocks = BlocksFor(task.out.rows * task.out.cols), .threads = kThreads}, task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
