#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/launchers.h"
#include "kernels/cuda/kernels/row_stretch.h"

namespace sluice::cuda::SIMT_NAMESPACE {
namespace {

constexpr size_t kScratchBytes = kStretchThreads / kWarpSize * sizeof(double);

// A block takes a stretch of a row.
SIMT_KERNEL(kStretchThreads, 4) SumExponentials(SIMT_TASK LogSoftmaxTask task) {
  WaitForKernelsBefore();
  const Stretch stretch = StretchOfBlock(task.x.cols);
  StretchScores scores;
  LoadScores(stretch, RowOf(task.x, stretch.row), scores);
  const ExponentialSum sum = SumOfStretch(scores, SharedMemory<double>());
  if (Thread() == 0) task.sums[Block()] = sum;
}

SIMT_KERNEL(kStretchThreads, 4) SubtractLogSum(SIMT_TASK LogSoftmaxTask task) {
  WaitForKernelsBefore();
  const Stretch stretch = StretchOfBlock(task.x.cols);
  const int64_t count = NumStretches(task.x.cols);
  const ExponentialSum* const sums = task.sums + stretch.row * count;
  const LogSum of_row = JoinStretches(
      count, [sums](int64_t i) { return sums[i]; }, SharedMemory<double>());
  StretchScores scores;
  LoadScores(stretch, RowOf(task.x, stretch.row), scores);
  float* const out = RowOf(task.out, stretch.row);
  SIMT_UNROLL
  for (int i = 0; i < kScoresOfThread; ++i) {
    const int64_t column = stretch.Column(i);
    if (column < stretch.end) out[column] = LogProbability(scores[i], of_row);
  }
}

}  // namespace

void LogSoftmax(Stream stream, const LogSoftmaxTask& task) {
  const LaunchShape shape{.blocks = task.x.rows * NumStretches(task.x.cols),
                          .threads = kStretchThreads,
                          .shared_bytes = kScratchBytes};
  Launch<SumExponentials>(stream, shape, task);
  Launch<SubtractLogSum>(stream, shape, task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
