#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/elements.h"
#include "kernels/cuda/kernels/launchers.h"
#include "kernels/cuda/token_image.h"

namespace sluice::cuda::SIMT_NAMESPACE {
namespace {

constexpr int kThreads = 256;
constexpr int kPiecesPerThread = 2;

// Inputs [8 * piece, 8 * piece + 8) of a row, as the image has them.
SIMT_DEVICE Words PieceOf(const TokenImageTask& task, int64_t row, int64_t piece) {
  const RunShape& runs = task.runs;
  const auto* const first = RowOf<uint16_t>(task.x, row) + piece * 8;
  if (task.x.dtype == DType::kBF16 && !runs.is_padded() &&
      reinterpret_cast<uintptr_t>(first) % sizeof(Words) == 0) {
    return *reinterpret_cast<const Words*>(first);
  }
  Words words;
  SIMT_UNROLL
  for (int pair = 0; pair < 4; ++pair) {
    float values[2];
    SIMT_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int64_t col = piece * 8 + pair * 2 + i;
      const int64_t run = col / runs.padded_depth(), k = col % runs.padded_depth();
      values[i] = k < runs.depth ? LoadElement(task.x, row, run * runs.depth + k) : 0.0f;
    }
    words.word[pair] = PackBFloat16(values[0], values[1]);
  }
  return words;
}

SIMT_KERNEL(kThreads, 4) WriteTokenImage(SIMT_TASK TokenImageTask task) {
  WaitForKernelsBefore();
  const int64_t num_units = task.runs.units() * task.runs.num_runs;
  const int64_t pieces = num_units * 8;  // of a row
  const int64_t all = TokenBlocks(task.x.rows) * kImageTokens * pieces;
  SIMT_UNROLL
  for (int i = 0; i < kPiecesPerThread; ++i) {
    const int64_t index = (Block() * kPiecesPerThread + i) * kThreads + Thread();
    if (index >= all) continue;
    const int64_t row = index / pieces, piece = index % pieces;
    const Words words = row < task.x.rows ? PieceOf(task, row, piece) : Words{};
    *reinterpret_cast<Words*>(task.image + TokenPiece(row, piece, num_units)) = words;
  }
}

}  // namespace

void TokenImage(Stream stream, const TokenImageTask& task) {
  constexpr int64_t kPerBlock = int64_t{kThreads} * kPiecesPerThread;
  const int64_t pieces =
      TokenImageBytes(task.x.rows, task.runs.num_runs * task.runs.padded_depth()) / 16;
  Launch<WriteTokenImage>(
      stream, {.blocks = (pieces + kPerBlock - 1) / kPerBlock, .threads = kThreads}, task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
