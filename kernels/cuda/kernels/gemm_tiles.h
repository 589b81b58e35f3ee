// The product of a block of threads: weights and activations come to shared memory some units of K
// ahead; each warp multiplies its tiles of 16 outputs with its columns of 8 tokens. After simt.h.
#pragma once

#include "kernels/cuda/gemm.h"
#include "kernels/cuda/kernels/elements.h"
#include "kernels/cuda/kernels/epilogue.h"

namespace sluice::cuda::SIMT_NAMESPACE {

// A register's pair of INT8 weights, bytes 0 and 2 of a word, as BF16. In BF16, 128 + m has the bits
// 0x4300 + m for m below 128, and 256 has 0x4380: a number is 128 and its low bits, minus 128 or,
// where it is negative, 256.
SIMT_DEVICE uint32_t PairFromInt8(uint32_t word) {
  return SubtractBFloat16((word & 0x007f007fu) | 0x43004300u, (word & 0x00800080u) | 0x43004300u);
}
// The same of INT4, the lowest bits of both halves: q + 8 is 128 + q minus 136.
SIMT_DEVICE uint32_t PairFromInt4(uint32_t word) {
  return SubtractBFloat16((word & 0x000f000fu) | 0x43004300u, 0x43084308u);
}

// Fragment `fragment` of a lane's weights of a unit in shared memory.
template <WeightFormat kFormat>
SIMT_DEVICE void LoadWeights(const char* unit, int fragment, int lane, uint32_t (&a)[4]) {
  if constexpr (kFormat == WeightFormat::kBF16) {
    const Words words = *reinterpret_cast<const Words*>(unit + (fragment * kWarpSize + lane) * 16);
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) a[i] = words.word[i];
  } else if constexpr (kFormat == WeightFormat::kInt8) {
    const auto* const words = reinterpret_cast<const uint32_t*>(
        unit + (fragment / 2 * kWarpSize + lane) * 16 + fragment % 2 * 8);
    a[0] = PairFromInt8(words[0]);
    a[1] = PairFromInt8(words[0] >> 8);
    a[2] = PairFromInt8(words[1]);
    a[3] = PairFromInt8(words[1] >> 8);
  } else {
    const uint32_t word = reinterpret_cast<const uint32_t*>(unit + lane * 16)[fragment];
    a[0] = PairFromInt4(word);
    a[2] = PairFromInt4(word >> 4);
    a[1] = PairFromInt4(word >> 8);
    a[3] = PairFromInt4(word >> 12);
  }
}

template <WeightFormat kFormat, GemmTile kTile>
class BlockProduct {
 public:
  static constexpr GemmTileShape kShape = ShapeOf(kTile);
  static constexpr int kUnit = UnitBytes(kFormat);
  static constexpr int kWeightBytes = kShape.tiles() * kUnit;
  static constexpr int kStage = static_cast<int>(StageBytes(kTile, kFormat));
  static constexpr int kFragments = kUnitInputs / kFragmentInputs;
  static constexpr bool kIsQuantized = IsQuantized(kFormat);
  static_assert(kWeightBytes % 128 == 0);

  SIMT_DEVICE explicit BlockProduct(const GemmTask& task)
      : task_(task),
        shared_(SharedMemory<char>()),
        warp_(Thread() / kWarpSize),
        lane_(Thread() % kWarpSize) {
    int64_t block = Block();
    token_block_ = block % task.plan.token_blocks;
    block /= task.plan.token_blocks;
    split_ = static_cast<int>(block % task.plan.splits);
    output_block_ = block / task.plan.splits;
    units_ = task.weights.runs.units();
    runs_ = task.weights.runs.num_runs / task.plan.splits;
  }

  SIMT_DEVICE void Run() {
    SumRuns();
    if (task_.plan.splits > 1 && !JoinSplits()) return;
    Write();
  }

 private:
  // A thread's sums, in the places of ElementOfC.
  using Sums = float[kShape.tiles_per_warp][kShape.columns_per_warp][4];

  SIMT_DEVICE int WarpByOutputs() const { return warp_ % kShape.warps_by_outputs; }
  SIMT_DEVICE int WarpByTokens() const { return warp_ / kShape.warps_by_outputs; }

  SIMT_DEVICE void Clear() {
    SIMT_UNROLL
    for (int m = 0; m < kShape.tiles_per_warp; ++m) {
      SIMT_UNROLL
      for (int n = 0; n < kShape.columns_per_warp; ++n) {
        SIMT_UNROLL
        for (int i = 0; i < 4; ++i) sums_[m][n][i] = 0;
      }
    }
  }

  // Calls f(sum, index) for all of them.
  template <class F>
  SIMT_DEVICE void ForSums(F f) {
    SIMT_UNROLL
    for (int m = 0; m < kShape.tiles_per_warp; ++m) {
      SIMT_UNROLL
      for (int n = 0; n < kShape.columns_per_warp; ++n) {
        SIMT_UNROLL
        for (int i = 0; i < 4; ++i) f(sums_[m][n][i], (m * kShape.columns_per_warp + n) * 4 + i);
      }
    }
  }

  // Has unit `unit` of K copied to stage `stage`.
  SIMT_DEVICE void Load(int64_t unit, int stage) {
    char* const to = shared_ + stage * kStage;
    const int64_t num_units = units_ * task_.weights.runs.num_runs;
    const int64_t num_tiles = NumTiles(task_.weights.num_outputs, task_.weights.gated);
    for (int i = Thread(); i < kWeightBytes / 16; i += kShape.threads()) {
      const int64_t tile = output_block_ * kShape.tiles() + i / (kUnit / 16);
      const auto* const from = reinterpret_cast<const char*>(task_.weights.data) +
                               (tile * num_units + unit) * kUnit + i % (kUnit / 16) * 16;
      CopyAsync(to + i * 16,
                tile < num_tiles ? from : reinterpret_cast<const char*>(task_.weights.data),
                tile < num_tiles);
    }
    for (int i = Thread(); i < kShape.tokens() * 8; i += kShape.threads()) {
      const int token = i / 8, piece = i % 8;
      const int64_t row = token_block_ * kShape.tokens() + token;
      const bool is_real = row < task_.x.rows;
      const uint16_t* const from =
          RowOf<uint16_t>(task_.x, is_real ? row : 0) + unit * kUnitInputs + piece * 8;
      CopyAsync(to + kWeightBytes + token * 128 + SwizzledPiece(token, piece) * 16, from, is_real);
    }
  }

  // Activations of fragment `fragment` for columns 2 * pair and 2 * pair + 1: registers 0 and 1,
  // and 2 and 3.
  SIMT_DEVICE void LoadActivations(const char* stage, int fragment, int pair, uint32_t (&b)[4]) {
    const int matrix = lane_ / 8;
    const int token =
        WarpByTokens() * kShape.columns_per_warp * 8 + pair * 16 + matrix / 2 * 8 + lane_ % 8;
    const int piece = fragment * 2 + matrix % 2;
    LoadMatrices(stage + kWeightBytes + token * 128 + SwizzledPiece(token, piece) * 16, b);
  }

  SIMT_DEVICE const char* UnitOf(const char* stage, int m) const {
    return stage + (WarpByOutputs() * kShape.tiles_per_warp + m) * kUnit;
  }

  SIMT_DEVICE void MultiplyUnit(const char* stage) {
    if constexpr (kIsQuantized) {
      SIMT_UNROLL
      for (int group = 0; group < 2; ++group) MultiplyGroup(stage, group);
    } else {
      SIMT_UNROLL
      for (int fragment = 0; fragment < kFragments; ++fragment) MultiplyFragment(stage, fragment);
    }
  }

  SIMT_DEVICE void MultiplyFragment(const char* stage, int fragment) {
    uint32_t b[kShape.columns_per_warp / 2][4];
    SIMT_UNROLL
    for (int pair = 0; pair < kShape.columns_per_warp / 2; ++pair) {
      LoadActivations(stage, fragment, pair, b[pair]);
    }
    SIMT_UNROLL
    for (int m = 0; m < kShape.tiles_per_warp; ++m) {
      uint32_t a[4];
      LoadWeights<kFormat>(UnitOf(stage, m), fragment, lane_, a);
      SIMT_UNROLL
      for (int n = 0; n < kShape.columns_per_warp; ++n) {
        MultiplyTiles(a, b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1], sums_[m][n]);
      }
    }
  }

  // The sum over a group of 32 inputs by itself, times the outputs' scales.
  SIMT_DEVICE void MultiplyGroup(const char* stage, int group) {
    uint32_t b[2][kShape.columns_per_warp / 2][4];
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      SIMT_UNROLL
      for (int pair = 0; pair < kShape.columns_per_warp / 2; ++pair) {
        LoadActivations(stage, group * 2 + half, pair, b[half][pair]);
      }
    }
    SIMT_UNROLL
    for (int m = 0; m < kShape.tiles_per_warp; ++m) {
      const char* const unit = UnitOf(stage, m);
      uint32_t a[2][4];
      LoadWeights<kFormat>(unit, group * 2, lane_, a[0]);
      LoadWeights<kFormat>(unit, group * 2 + 1, lane_, a[1]);
      const float low = Scale(unit, lane_ / 4, group), high = Scale(unit, lane_ / 4 + 8, group);
      SIMT_UNROLL
      for (int n = 0; n < kShape.columns_per_warp; ++n) {
        float sum[4] = {0, 0, 0, 0};
        SIMT_UNROLL
        for (int half = 0; half < 2; ++half) {
          MultiplyTiles(a[half], b[half][n / 2][n % 2 * 2], b[half][n / 2][n % 2 * 2 + 1], sum);
        }
        SIMT_UNROLL
        for (int i = 0; i < 4; ++i) {
          sums_[m][n][i] = FusedMultiplyAdd(sum[i], i < 2 ? low : high, sums_[m][n][i]);
        }
      }
    }
  }

  SIMT_DEVICE static float Scale(const char* unit, int row, int group) {
    return Widened(*reinterpret_cast<const uint16_t*>(unit + ScaleOffset(kFormat, row, group)));
  }

  SIMT_DEVICE void SumRuns() {
    const int64_t begin = split_ * runs_ * units_, end = begin + runs_ * units_;
    Clear();
    SIMT_UNROLL
    for (int stage = 0; stage < kShape.stages - 1; ++stage) {
      if (begin + stage < end) Load(begin + stage, stage);
      CommitCopies();
    }
    int stage = 0, run = 0;
    int64_t left = units_;  // of the run
    for (int64_t unit = begin; unit < end; ++unit) {
      WaitForCopies<kShape.stages - 2>();
      Barrier();
      const int64_t next = unit + kShape.stages - 1;
      if (next < end) Load(next, stage == 0 ? kShape.stages - 1 : stage - 1);
      CommitCopies();
      MultiplyUnit(shared_ + stage * kStage);
      stage = stage + 1 == kShape.stages ? 0 : stage + 1;
      if (--left > 0) continue;
      left = units_;
      Join(run, run + 1 == runs_);
      if (++run < runs_) Clear();
    }
  }

  // Joins sums_ with those that wait for them, as sums number `index` of a power of two; after the
  // last, sums_ is the tree over all.
  SIMT_DEVICE void Join(int index, bool is_last) {
    auto* const waiting = reinterpret_cast<float*>(shared_ + kShape.stages * kStage);
    int level = 0;
    for (; (index >> level & 1) != 0; ++level) {
      const float* const from = waiting + level * kShape.sums() * kShape.threads();
      ForSums([&](float& sum, int i) { sum = from[i * kShape.threads() + Thread()] + sum; });
    }
    if (is_last) return;
    float* const to = waiting + level * kShape.sums() * kShape.threads();
    ForSums([&](float& sum, int i) { to[i * kShape.threads() + Thread()] = sum; });
  }

  // Leaves the sums to the block that comes last of those that share the outputs, which joins them.
  // Whether this is the one.
  SIMT_DEVICE bool JoinSplits() {
    const int64_t tile = output_block_ * task_.plan.token_blocks + token_block_;
    constexpr int64_t kFloats = int64_t{kShape.sums()} * kShape.threads();
    float* const partials = task_.partials + tile * task_.plan.splits * kFloats;
    float* const own = partials + split_ * kFloats;
    ForSums([&](float& sum, int i) { own[i * kShape.threads() + Thread()] = sum; });
    Fence();
    Barrier();
    auto* const num_before = reinterpret_cast<unsigned*>(shared_);
    if (Thread() == 0) *num_before = AtomicAdd(task_.counters + tile, 1);
    Barrier();
    if (*num_before + 1 != static_cast<unsigned>(task_.plan.splits)) return false;
    Fence();
    if (Thread() == 0) task_.counters[tile] = 0;
    for (int split = 0; split < task_.plan.splits; ++split) {
      const float* const from = partials + split * kFloats;
      ForSums(
          [&](float& sum, int i) { sum = LoadUncached(from + i * kShape.threads() + Thread()); });
      Join(split, split + 1 == task_.plan.splits);
    }
    return true;
  }

  SIMT_DEVICE void Write() {
    const EpilogueTask& epilogue = task_.epilogue;
    const int64_t first_tile =
        output_block_ * kShape.tiles() + WarpByOutputs() * kShape.tiles_per_warp;
    const int64_t first_token =
        token_block_ * kShape.tokens() + WarpByTokens() * kShape.columns_per_warp * 8;
    SIMT_UNROLL
    for (int m = 0; m < kShape.tiles_per_warp; ++m) {
      SIMT_UNROLL
      for (int n = 0; n < kShape.columns_per_warp; ++n) {
        SIMT_UNROLL
        for (int i = 0; i < 4; ++i) {
          const int64_t row = first_token + n * 8 + lane_ % 4 * 2 + i % 2;
          if (row >= epilogue.out.rows) continue;
          if (epilogue.gated) {
            // Rows 8 to 15 of a tile are the ups of rows 0 to 7.
            const int64_t col = (first_tile + m) * 8 + lane_ / 4;
            if (i < 2 && col < epilogue.out.cols) {
              WriteResult(epilogue, row, col, sums_[m][n][i], sums_[m][n][i < 2 ? i + 2 : i]);
            }
          } else {
            const int64_t col = (first_tile + m) * kTileOutputs + lane_ / 4 + i / 2 * 8;
            if (col < epilogue.out.cols) WriteResult(epilogue, row, col, sums_[m][n][i], 0);
          }
        }
      }
    }
  }

  const GemmTask& task_;
  char* const shared_;
  const int warp_, lane_;
  int split_;
  int runs_;       // of this block
  int64_t units_;  // of a run
  int64_t token_block_, output_block_;
  Sums sums_;
};

template <WeightFormat kFormat, GemmTile kTile>
SIMT_KERNEL(ShapeOf(kTile).threads(), 1)
MultiplyBlock(const GemmTask task) {
  BlockProduct<kFormat, kTile>(task).Run();
}

template <WeightFormat kFormat, GemmTile kTile>
void LaunchTile(Stream stream, const GemmTask& task) {
  // What is joined at a time: a block's runs, or what splits left.
  const int64_t joined = task.weights.runs.num_runs;
  Launch<MultiplyBlock<kFormat, kTile>>(
      stream,
      {.blocks = task.plan.blocks(),
       .threads = ShapeOf(kTile).threads(),
       .shared_bytes = static_cast<size_t>(GemmSharedBytes(kTile, kFormat, joined))},
      task);
}

template <WeightFormat kFormat>
void LaunchFormat(Stream stream, const GemmTask& task) {
  switch (task.plan.tile) {
    case GemmTile::kDecode:
      return LaunchTile<kFormat, GemmTile::kDecode>(stream, task);
    case GemmTile::kMiddle:
      return LaunchTile<kFormat, GemmTile::kMiddle>(stream, task);
    case GemmTile::kLarge:
      return LaunchTile<kFormat, GemmTile::kLarge>(stream, task);
  }
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
