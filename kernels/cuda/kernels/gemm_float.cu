#include "simt.h"

// After simt.h.
#include "kernels/cuda/kernels/elements.h"
#include "kernels/cuda/kernels/epilogue.h"
#include "kernels/cuda/kernels/launchers.h"

namespace sluice::cuda::SIMT_NAMESPACE {
namespace {

constexpr int kOutputs = 32;       // of a block: one per lane
constexpr int kTokensPerWarp = 4;  // one sum each
constexpr int kWarps = 4;
constexpr int kTokens = kWarps * kTokensPerWarp;
constexpr int kThreads = kWarps * kWarpSize;
constexpr int kInputs = 32;  // in shared memory at a time
constexpr int kMostLevels = 8;

struct Shared {
  float weights[kOutputs][kInputs + 1];  // a word more, so that lanes meet different banks
  float x[kTokens][kInputs];
};

// What a thread sums: output `output` for tokens first_token and on.
struct Place {
  int64_t output, first_token;
};

SIMT_DEVICE void LoadInputs(const FloatGemmTask& task, int64_t first_row, int64_t num_rows,
                            int64_t first_token, int64_t k, int count, Shared& shared) {
  const auto* const weights = reinterpret_cast<const float*>(task.weights.data);
  for (int i = Thread(); i < kOutputs * kInputs; i += kThreads) {
    const int row = i / kInputs, col = i % kInputs;
    const bool is_real = row < num_rows && col < count;
    shared.weights[row][col] =
        is_real ? weights[(first_row + row) * task.weights.num_inputs + k + col] : 0.0f;
  }
  for (int i = Thread(); i < kTokens * kInputs; i += kThreads) {
    const int row = i / kInputs, col = i % kInputs;
    const bool is_real = first_token + row < task.x.rows && col < count;
    shared.x[row][col] = is_real ? LoadElement(task.x, first_token + row, k + col) : 0.0f;
  }
}

// Rows [first_row, first_row + num_rows) of the weights, at most kOutputs, with the block's tokens:
// each run in order of k, the runs as a tree.
SIMT_DEVICE void SumRows(const FloatGemmTask& task, int64_t first_row, int64_t num_rows,
                         int64_t first_token, Shared& shared, float (&sums)[kTokensPerWarp]) {
  const int lane = Thread() % kWarpSize, warp = Thread() / kWarpSize;
  const RunShape& runs = task.weights.runs;
  float waiting[kMostLevels][kTokensPerWarp];
  for (int run = 0; run < runs.num_runs; ++run) {
    for (float& sum : sums) sum = 0;
    for (int64_t done = 0; done < runs.depth; done += kInputs) {
      const auto count = static_cast<int>(Smaller()(int64_t{kInputs}, runs.depth - done));
      Barrier();
      LoadInputs(task, first_row, num_rows, first_token, run * runs.depth + done, count, shared);
      Barrier();
      for (int k = 0; k < count; ++k) {
        SIMT_UNROLL
        for (int i = 0; i < kTokensPerWarp; ++i) {
          sums[i] = FusedMultiplyAdd(shared.x[warp * kTokensPerWarp + i][k],
                                     shared.weights[lane][k], sums[i]);
        }
      }
    }
    bool is_joined = false;
    SIMT_UNROLL
    for (int level = 0; level < kMostLevels; ++level) {
      if (is_joined) continue;
      const bool joins = (run >> level & 1) != 0;
      SIMT_UNROLL
      for (int i = 0; i < kTokensPerWarp; ++i) {
        if (joins) {
          sums[i] = waiting[level][i] + sums[i];
        } else {
          waiting[level][i] = sums[i];
        }
      }
      is_joined = !joins;
    }
  }
}

SIMT_KERNEL(kThreads, 4) MultiplyFloats(SIMT_TASK FloatGemmTask task) {
  WaitForKernelsBefore();
  Shared& shared = *SharedMemory<Shared>();
  const int64_t cols = task.epilogue.out.cols;
  const int64_t col_blocks = (cols + kOutputs - 1) / kOutputs;
  const int64_t first_col = Block() % col_blocks * kOutputs;
  const int64_t first_token = Block() / col_blocks * kTokens;
  const int64_t count = Smaller()(int64_t{kOutputs}, cols - first_col);
  float sums[kTokensPerWarp], ups[kTokensPerWarp] = {};
  SumRows(task, first_col, count, first_token, shared, sums);
  if (task.epilogue.gated) SumRows(task, cols + first_col, count, first_token, shared, ups);
  const int64_t col = first_col + Thread() % kWarpSize;
  const int64_t row = first_token + Thread() / kWarpSize * kTokensPerWarp;
  SIMT_UNROLL
  for (int i = 0; i < kTokensPerWarp; ++i) {
    if (col < cols && row + i < task.epilogue.out.rows) {
      WriteResult(task.epilogue, row + i, col, sums[i], ups[i]);
    }
  }
}

}  // namespace

void FloatGemm(Stream stream, const FloatGemmTask& task) {
  const int64_t cols = task.epilogue.out.cols, rows = task.epilogue.out.rows;
  const int64_t col_blocks = (cols + kOutputs - 1) / kOutputs;
  Launch<MultiplyFloats>(stream,
                         {.blocks = col_blocks * ((rows + kTokens - 1) / kTokens),
                          .threads = kThreads,
                          .shared_bytes = sizeof(Shared)},
                         task);
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
