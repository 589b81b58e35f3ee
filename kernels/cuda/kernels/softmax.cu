#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/elements.h"
#include "kernels/cuda/kernels/launchers.h"

namespace sluice::cuda::SIMT_NAMESPACE {
namespace {

constexpr int kThreads = 512;

// A block takes a row.
SIMT_KERNEL(kThreads, 2) LogSoftmaxRow(SIMT_TASK LogSoftmaxTask task) {
  WaitForKernelsBefore();
  auto* const scratch = SharedMemory<double>();
  const float* const x = RowOf(task.x, Block());
  float* const out = RowOf(task.out, Block());
  // A row that has no number becomes one that has none at all, by its sum.
  float largest = -INFINITY;
  for (int64_t i = Thread(); i < task.x.cols; i += kThreads) largest = Larger()(largest, x[i]);
  largest = JoinThreads(largest, Larger(), reinterpret_cast<float*>(scratch));
  double sum = 0;
  for (int64_t i = Thread(); i < task.x.cols; i += kThreads) sum += Exp(x[i] - largest);
  const auto log_sum = static_cast<float>(Log(JoinThreads(sum, Plus(), scratch)));
  for (int64_t i = Thread(); i < task.x.cols; i += kThreads) out[i] = x[i] - largest - log_sum;
}

}  // namespace

void LogSoftmax(Stream stream, const LogSoftmaxTask& task) {
  Launch<LogSoftmaxRow>(
      stream, {.blocks = task.x.rows, .threads = kThreads, .shared_bytes = 32 * sizeof(double)},
      task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
