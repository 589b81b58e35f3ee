#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/elements.h"
#include "kernels/cuda/kernels/launchers.h"
#include "kernels/cuda/token_image.h"

namespace sluice::cuda::SIMT_NAMESPACE {
namespace {

constexpr int kThreads = 256;
constexpr int kPiecesPerThread = 2;

SIMT_DEVICE bool IsWhole(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % sizeof(Words) == 0;
}

// Eight neighbouring elements of F32, which begin at a multiple of 16 bytes, in BF16.
SIMT_DEVICE Words RoundedWords(const float* from) {
  Words words;
  SIMT_UNROLL
  for (int half = 0; half < 2; ++half) {
    const Words four = *reinterpret_cast<const Words*>(from + half * 4);
    SIMT_UNROLL
    for (int pair = 0; pair < 2; ++pair) {
      words.word[half * 2 + pair] =
          PackBFloat16(FloatFromBits(four.word[pair * 2]), FloatFromBits(four.word[pair * 2 + 1]));
    }
  }
  return words;
}

// Inputs [k, k + 8) of a run that begins at input `begin` of the row, one by one; zeroes behind its end.
SIMT_DEVICE Words SingleElements(const TokenImageTask& task, int64_t row, int64_t begin,
                                 int64_t k) {
  Words words;
  SIMT_UNROLL
  for (int pair = 0; pair < 4; ++pair) {
    float values[2];
    SIMT_UNROLL
    for (int i = 0; i < 2; ++i) {
      const int64_t at = k + pair * 2 + i;
      values[i] = at < task.runs.depth ? LoadElement(task.x, row, begin + at) : 0.0f;
    }
    words.word[pair] = PackBFloat16(values[0], values[1]);
  }
  return words;
}

// Inputs [8 * piece, 8 * piece + 8) of a row, as the image has them. They are of one run, which is whole
// units: read 16 bytes at a time where they are all there and lie so.
SIMT_DEVICE Words PieceOf(const TokenImageTask& task, int64_t row, unsigned piece) {
  const auto pieces = static_cast<unsigned>(task.runs.padded_depth() / 8);  // of a run
  const int64_t begin = piece / pieces * task.runs.depth, k = piece % pieces * 8;
  if (k + 8 > task.runs.depth) return SingleElements(task, row, begin, k);
  if (task.x.dtype == DType::kBF16) {
    const auto* const first = RowOf<uint16_t>(task.x, row) + begin + k;
    if (IsWhole(first)) return *reinterpret_cast<const Words*>(first);
  } else {
    const auto* const first = RowOf<float>(task.x, row) + begin + k;
    if (IsWhole(first)) return RoundedWords(first);
  }
  return SingleElements(task, row, begin, k);
}

SIMT_KERNEL(kThreads, 4) WriteTokenImage(SIMT_TASK TokenImageTask task) {
  LetKernelsBehindBegin();
  WaitForKernelsBefore();
  // Divisions of 64 bits would take longer than what is read and written. An image of less than 64 GiB
  // has fewer pieces.
  const auto num_units = static_cast<unsigned>(task.runs.units() * task.runs.num_runs);
  const unsigned pieces = num_units * 8;  // of a row
  const unsigned all = static_cast<unsigned>(TokenBlocks(task.x.rows)) * kImageTokens * pieces;
  SIMT_UNROLL
  for (int i = 0; i < kPiecesPerThread; ++i) {
    const unsigned index =
        (static_cast<unsigned>(Block()) * kPiecesPerThread + i) * kThreads + Thread();
    if (index >= all) continue;
    const unsigned row = index / pieces, piece = index % pieces;
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
