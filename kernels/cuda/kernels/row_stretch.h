// A stretch of a wide row (kernels/cuda/row_stretches.h) as a block of kStretchThreads threads has it,
// and sums of exponentials over stretches and rows. After simt.h.
#pragma once

#include "kernels/cuda/kernels/elements.h"
#include "kernels/cuda/kernels/exponential.h"
#include "kernels/cuda/row_stretches.h"

namespace sluice::cuda::SIMT_NAMESPACE {

// What a thread has of a stretch.
inline constexpr int kScoresOfThread = kStretchColumns / kStretchThreads;
using StretchScores = float[kScoresOfThread];

// Columns [begin, end) of a row.
struct Stretch {
  int64_t row;
  int64_t begin;
  int64_t end;

  // Of the thread's i-th score; outside the stretch there may be none.
  SIMT_DEVICE int64_t Column(int i) const { return begin + i * kStretchThreads + Thread(); }
};

SIMT_DEVICE Stretch StretchOfBlock(int64_t columns) {
  const int64_t count = NumStretches(columns);
  const int64_t begin = Block() % count * kStretchColumns;
  return {Block() / count, begin, Smaller()(begin + kStretchColumns, columns)};
}

// Minus infinity where there is none.
SIMT_DEVICE void LoadScores(const Stretch& stretch, const float* row, StretchScores& scores) {
  SIMT_UNROLL
  for (int i = 0; i < kScoresOfThread; ++i) {
    const int64_t column = stretch.Column(i);
    scores[i] = column < stretch.end ? row[column] : -INFINITY;
  }
}

SIMT_DEVICE float LargestOf(const StretchScores& scores, double* scratch) {
  float largest = -INFINITY;
  SIMT_UNROLL
  for (int i = 0; i < kScoresOfThread; ++i) largest = Larger()(largest, scores[i]);
  return JoinThreads(largest, Larger(), reinterpret_cast<float*>(scratch));
}

// `scratch`: a double per warp. What is no number makes the sum none.
SIMT_DEVICE ExponentialSum SumOfStretch(const StretchScores& scores, double* scratch) {
  const float largest = LargestOf(scores, scratch);
  const float shift = largest == -INFINITY ? 0.0f : largest;
  double sum = 0;
  SIMT_UNROLL
  for (int i = 0; i < kScoresOfThread; ++i) sum += Exp(scores[i] - shift);
  return {JoinThreads(sum, Plus(), scratch), largest};
}

// Log-probabilities are scores less `largest`, less `log_sum`.
struct LogSum {
  float largest;
  float log_sum;
};
// Of a row, by a block of at least kStretchThreads threads: the same bits for any number of them.
// sum_at(i): the ExponentialSum of stretch i.
template <class SumAt>
SIMT_DEVICE LogSum JoinStretches(int64_t count, SumAt sum_at, double* scratch) {
  const int64_t first = Thread() < kStretchThreads ? Thread() : count;
  float largest = -INFINITY;
  for (int64_t i = first; i < count; i += kStretchThreads) {
    largest = Larger()(largest, sum_at(i).largest);
  }
  largest = JoinThreads(largest, Larger(), reinterpret_cast<float*>(scratch));
  double sum = 0;
  for (int64_t i = first; i < count; i += kStretchThreads) {
    const ExponentialSum of_stretch = sum_at(i);
    sum += of_stretch.sum * ExpOfNegative(double{of_stretch.largest} - double{largest});
  }
  return {largest, static_cast<float>(Log(JoinThreads(sum, Plus(), scratch)))};
}

SIMT_DEVICE float LogProbability(float score, const LogSum& of_row) {
  return score - of_row.largest - of_row.log_sum;
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
