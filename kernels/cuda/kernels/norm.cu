#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/elements.h"
#include "kernels/cuda/kernels/launchers.h"

namespace sluice::cuda::SIMT_NAMESPACE {
namespace {

// Of a thread's numbers so many are asked for at once and stay in registers: all of rows up to 4,096.
constexpr int kHeld = 16;
using Held = float[kHeld];

SIMT_DEVICE void Load(const float* from, int64_t width, Held& held) {
  SIMT_UNROLL
  for (int j = 0; j < kHeld; ++j) {
    const int64_t i = j * kNormSums + Thread();
    held[j] = i < width ? from[i] : 0.0f;
  }
}

// Calls f(j, i, x[i]) for the thread's numbers in order of i; j is its place among those held, or
// kHeld.
template <class F>
SIMT_DEVICE void ForNumbers(const float* x, int64_t width, const Held& held, F f) {
  SIMT_UNROLL
  for (int j = 0; j < kHeld; ++j) {
    const int64_t i = j * kNormSums + Thread();
    if (i < width) f(j, i, held[j]);
  }
  for (int64_t i = kHeld * kNormSums + Thread(); i < width; i += kNormSums) f(kHeld, i, x[i]);
}

// A block normalises one group of a row: thread i has its sum i. Weights, which no kernel writes,
// come while the kernels before this one end.
SIMT_KERNEL(kNormSums, 2) NormGroup(SIMT_TASK NormTask task) {
  Held held, weights;
  Load(task.weight, task.width, weights);
  WaitForKernelsBefore();
  auto* const scratch = SharedMemory<float>();
  const int64_t groups = task.x.cols / task.width;
  const int64_t row = Block() / groups, first = Block() % groups * task.width;
  const float* const x = RowOf(task.x, row) + first;
  const auto size = static_cast<float>(task.width);
  Load(x, task.width, held);
  float mean = 0;
  if (task.centred) {
    float sum = 0;
    ForNumbers(x, task.width, held, [&](int, int64_t, float number) { sum += number; });
    mean = JoinThreads(sum, Plus(), scratch) / size;
  }
  float squares = 0;
  ForNumbers(x, task.width, held, [&](int, int64_t, float number) {
    const float distance = number - mean;
    squares = FusedMultiplyAdd(distance, distance, squares);
  });
  const float variance = JoinThreads(squares, Plus(), scratch) / size;
  const float scale = 1.0f / SquareRoot(variance + task.eps);
  ForNumbers(x, task.width, held, [&](int j, int64_t i, float number) {
    const float weight = j < kHeld ? weights[j] : task.weight[i];
    const float scaled = (number - mean) * scale * weight;
    const float shift = task.bias == nullptr ? 0.0f : task.bias[i];
    StoreElement(task.out, row, first + i, task.bias == nullptr ? scaled : scaled + shift);
  });
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
