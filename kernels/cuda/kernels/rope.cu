#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/elements.h"
#include "kernels/cuda/kernels/launchers.h"

namespace sluice::cuda::SIMT_NAMESPACE {
namespace {

constexpr int kThreads = 128;

// A block turns a row.
SIMT_KERNEL(kThreads, 8) TurnRow(SIMT_TASK RopeTask task) {
  WaitForKernelsBefore();
  const int64_t row = Block();
  const int64_t angle = task.rows == nullptr ? row : task.rows[row].position;
  const float* const cos = RowOf(task.cos, angle);
  const float* const sin = RowOf(task.sin, angle);
  float* const x = RowOf(task.x, row);
  const auto pairs = static_cast<int>(task.cos.cols);
  const auto count = static_cast<int>(task.x.cols / task.head_dim) * pairs;
  for (int i = Thread(); i < count; i += kThreads) {
    const int pair = i % pairs;
    float* const head = x + i / pairs * task.head_dim;
    float* const first = head + (task.interleaved ? 2 * pair : pair);
    float* const second = head + (task.interleaved ? 2 * pair + 1 : pair + pairs);
    const float a = *first, b = *second;
    *first = a * cos[pair] - b * sin[pair];
    *second = b * cos[pair] + a * sin[pair];
  }
}

}  // namespace

void Rope(Stream stream, const RopeTask& task) {
  Launch<TurnRow>(stream, {.blocks = task.x.rows, .threads = kThreads}, task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
