#include "kernels/cpu/gemm_activations.h"

#include <algorithm>

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm_activations.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"
// clang-format on

#ifndef SLUICE_KERNELS_CPU_GEMM_ACTIVATIONS_TILES_
#define SLUICE_KERNELS_CPU_GEMM_ACTIVATIONS_TILES_
namespace sluice {

// Where the rounded rows of an operand go.
struct ActivationTiles {
  int64_t tile_rows;  // or of a block
  uint32_t* pairs;
  float* sums;   // or nullptr
  float excess;  // what sums are multiplied with is minus this
  int64_t num_slices;
  int64_t depth;         // of a slice, without padding
  int64_t padded_depth;  // a multiple of 2; with sums, of kWeightGroup

  int64_t pairs_per_row() const { return num_slices * padded_depth / 2; }
  int64_t sums_per_row() const { return sums == nullptr ? 0 : pairs_per_row() * 2 / kWeightGroup; }
};

}  // namespace sluice
#endif

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {
namespace {

// BFloat16FromFloat of every element, in the upper half of its 32 bits.
template <class D>
HWY_INLINE auto RoundedBits(D d, hn::Vec<D> x) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, x);
  const auto is_odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(hn::Add(bits, hn::Set(du, 0x7fff)), is_odd);
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000));
  const auto is_number = hn::RebindMask(du, hn::Eq(x, x));
  return hn::And(hn::IfThenElse(is_number, rounded, quiet), hn::Set(du, 0xffff0000));
}

// Rounded, as floats or as their bits.
void RoundRow(const float* from, int64_t count, float* to) {
  ForEachVector(count, [=](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::BitCast(d, RoundedBits(d, hn::LoadU(d, from + i))), d, to + i);
  });
}
void RoundRow(const float* from, int64_t count, uint32_t* to) {
  ForEachVector(count, [=](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(RoundedBits(d, hn::LoadU(d, from + i)), hn::RebindToUnsigned<decltype(d)>(), to + i);
  });
}

// The sum of each group of the floats whose bits are in `row`, times -excess.
void SumGroups(const uint32_t* row, int64_t count, float excess, int64_t step, float* sums) {
  const FloatTag d;
  const hn::RebindToUnsigned<FloatTag> du;
  constexpr int kVectors = kMaxFloatLanes / hn::MaxLanes(d);
  static_assert(kWeightGroup == 2 * kMaxFloatLanes);
  const int64_t lanes = hn::Lanes(d);
  const auto load = [=](int64_t i) HWY_ATTR { return hn::BitCast(d, hn::LoadU(du, row + i)); };
  for (int64_t begin = 0; begin < count; begin += kWeightGroup) {
    hn::Vec<FloatTag> both[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      const int64_t i = begin + v * lanes;
      both[v] = hn::Add(load(i), load(i + kMaxFloatLanes));
    }
    sums[begin / kWeightGroup * step] = -excess * SumOfSixteen(both);
  }
}

// Puts neighbouring elements of `bits`, which has what counts in the upper halves, side by side:
// `count` pairs, `step` apart.
void StorePairs(const uint32_t* bits, int64_t count, int64_t step, uint32_t* pairs) {
  const hn::RebindToUnsigned<FloatTag> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN uint32_t packed[kMaxFloatLanes];
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::Vec<decltype(d)> left, right;
    hn::LoadInterleaved2(d, bits + 2 * i, left, right);
    const auto both = hn::Or(hn::ShiftRight<16>(left), right);
    if (step == 1) {
      hn::StoreU(both, d, pairs + i);
      continue;
    }
    hn::Store(both, d, packed);
    for (int64_t lane = 0; lane < lanes; ++lane) pairs[(i + lane) * step] = packed[lane];
  }
  for (; i < count; ++i) pairs[i * step] = bits[2 * i] >> 16 | bits[2 * i + 1];
}

// One row of a tile of `step` rows. `rounded` holds the bits of a padded slice.
void FillTileRow(const float* x, const ActivationTiles& tiles, int64_t step, uint32_t* rounded,
                 uint32_t* pairs, float* sums) {
  std::fill(rounded + tiles.depth, rounded + tiles.padded_depth, 0u);
  for (int64_t slice = 0; slice < tiles.num_slices; ++slice) {
    RoundRow(x + slice * tiles.depth, tiles.depth, rounded);
    StorePairs(rounded, tiles.padded_depth / 2, step, pairs);
    pairs += tiles.padded_depth / 2 * step;
    if (sums == nullptr) continue;
    SumGroups(rounded, tiles.padded_depth, tiles.excess, step, sums);
    sums += tiles.padded_depth / kWeightGroup * step;
  }
}

void FillTiles(CpuContext& context, MatrixView x, const ActivationTiles& tiles) {
  const int64_t num_tiles = (x.rows + tiles.tile_rows - 1) / tiles.tile_rows;
  context.pool.ParallelFor(num_tiles, [&](int64_t tile, int worker) {
    const int64_t first = tile * tiles.tile_rows;
    const int64_t rows = std::min(tiles.tile_rows, x.rows - first);
    auto* rounded = reinterpret_cast<uint32_t*>(
        context.scratch.Bytes(worker, tiles.padded_depth * sizeof(uint32_t)));
    uint32_t* pairs = tiles.pairs + first * tiles.pairs_per_row();
    float* sums = tiles.sums == nullptr ? nullptr : tiles.sums + first * tiles.sums_per_row();
    for (int64_t r = 0; r < rows; ++r) {
      FillTileRow(x.Row(first + r), tiles, rows, rounded, pairs + r,
                  sums == nullptr ? nullptr : sums + r);
    }
  });
}

// A row of a block.
#if HWY_TARGET == HWY_SCALAR
void RoundBlockRow(const float* x, uint16_t* to) {
  std::transform(x, x + kRowsDepth, to, BFloat16FromFloat);
}
#else
void RoundBlockRow(const float* x, uint16_t* to) {
  const FloatTag d;
  const hn::Repartition<uint16_t, FloatTag> halves;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < kRowsDepth; i += 2 * lanes) {
    const auto low = hn::BitCast(halves, RoundedBits(d, hn::LoadU(d, x + i)));
    const auto high = hn::BitCast(halves, RoundedBits(d, hn::LoadU(d, x + i + lanes)));
    hn::StoreU(hn::ConcatOdd(halves, high, low), halves, to + i);
  }
}
#endif

// The same of `count` elements, 1 or more, padded with zeroes.
void FillBlockRow(const float* x, int64_t count, uint16_t* to) {
  if (count >= kRowsDepth) return RoundBlockRow(x, to);
  float padded[kRowsDepth] = {};
  std::copy_n(x, count, padded);
  RoundBlockRow(padded, to);
}

// Blocks [begin, end) of rows [first, first + rows), counted along all padded slices.
void FillBlockRun(MatrixView x, const ActivationTiles& tiles, int64_t first, int64_t rows,
                  int64_t begin, int64_t end) {
  const int64_t slice_blocks = tiles.padded_depth / kRowsDepth;
  auto* to = reinterpret_cast<uint16_t*>(tiles.pairs + first * tiles.pairs_per_row()) +
             begin * kRowsStep * kRowsDepth;
  for (int64_t block = begin; block < end; ++block) {
    const int64_t slice = block / slice_blocks, k = block % slice_blocks * kRowsDepth;
    for (int64_t r = 0; r < rows; ++r, to += kRowsDepth) {
      FillBlockRow(x.Row(first + r) + slice * tiles.depth + k,
                   std::min(kRowsDepth, tiles.depth - k), to);
    }
    to = std::fill_n(to, (kRowsStep - rows) * kRowsDepth, uint16_t{0});
  }
}

// Rows of ActivationLayout::kBFloat16Blocks. A task is a part of 16 rows' inputs, so that no thread
// has all of few rows.
void FillBlocks(CpuContext& context, MatrixView x, const ActivationTiles& tiles) {
  const int64_t num_blocks = tiles.num_slices * tiles.padded_depth / kRowsDepth;  // of 16 rows
  const int64_t run =
      std::max<int64_t>(1, kElementsWorthATask / (std::min(kRowsStep, x.rows) * kRowsDepth));
  const int64_t num_runs = (num_blocks + run - 1) / run;
  context.pool.ParallelFor((x.rows + kRowsStep - 1) / kRowsStep * num_runs, [&](int64_t task, int) {
    const int64_t first = task / num_runs * kRowsStep;
    const int64_t begin = task % num_runs * run;
    FillBlockRun(x, tiles, first, std::min(kRowsStep, x.rows - first), begin,
                 std::min(num_blocks, begin + run));
  });
}

void RoundRows(CpuContext& context, MatrixView x, float* to) {
  ForRowRuns(context, x.rows, x.cols, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) RoundRow(x.Row(t), x.cols, to + t * x.cols);
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice {

HWY_EXPORT(FillTiles);
HWY_EXPORT(FillBlocks);
HWY_EXPORT(RoundRows);

namespace {

// The memory of `rows` rearranged rows.
struct OperandSize {
  int64_t rows;  // with those of zeroes
  int64_t pairs;
  int64_t sums;
};

bool IsTiled(const CpuPackedMatrix& weights) {
  return weights.kernel().activations == ActivationLayout::kBFloat16Tiles;
}

// Tiles as large as can be that all have about as many rows: a kernel fetches the weights for all
// of a panel's tiles evenly.
int64_t TileRowsOf(const CpuPackedMatrix& weights, int64_t rows) {
  const int64_t most = weights.kernel().tile_rows;
  if (!IsTiled(weights)) return most;
  const int64_t num_tiles = (rows + most - 1) / most;
  return (rows + num_tiles - 1) / num_tiles;
}

OperandSize SizeOfOperand(const CpuPackedMatrix& weights, int64_t rows) {
  OperandSize size{.rows = IsTiled(weights) ? rows : (rows + kRowsStep - 1) / kRowsStep * kRowsStep,
                   .pairs = 0,
                   .sums = 0};
  size.pairs = size.rows * weights.num_slices() * weights.padded_slice_depth() / 2;
  if (weights.kernel().sums_excess != 0) size.sums = 2 * size.pairs / kWeightGroup;
  return size;
}

}  // namespace

size_t BytesOfActivations(const CpuPackedMatrix& weights, int64_t rows) {
  size_t floats = 0;
  switch (weights.kernel().activations) {
    case ActivationLayout::kFloats:
      break;
    case ActivationLayout::kRoundedFloats:
      floats = rows * weights.num_inputs();
      break;
    case ActivationLayout::kBFloat16Tiles:
    case ActivationLayout::kBFloat16Blocks:
      const OperandSize size = SizeOfOperand(weights, rows);
      floats = size.pairs + size.sums;
  }
  return (floats * sizeof(float) + 63) / 64 * 64;
}

void ReserveActivations(CpuContext& context, const CpuPackedMatrix& weights, int64_t max_rows) {
  context.operand.Reserve(BytesOfActivations(weights, max_rows) / sizeof(float));
  if (IsTiled(weights)) context.scratch.Reserve(weights.padded_slice_depth());
}

GemmActivations PrepareActivations(CpuContext& context, MatrixView x,
                                   const CpuPackedMatrix& weights) {
  return PrepareActivations(context, x, weights,
                            context.operand.Bytes(0, BytesOfActivations(weights, x.rows)));
}

GemmActivations PrepareActivations(CpuContext& context, MatrixView x,
                                   const CpuPackedMatrix& weights, std::byte* memory) {
  const GemmKernel& kernel = weights.kernel();
  if (kernel.activations == ActivationLayout::kFloats) return {x.data, x.stride, 1, nullptr, 0};
  if (kernel.activations == ActivationLayout::kRoundedFloats) {
    auto* const rounded = reinterpret_cast<float*>(memory);
    HWY_DYNAMIC_DISPATCH(RoundRows)(context, x, rounded);
    return {rounded, x.cols, 1, nullptr, 0};
  }
  const OperandSize size = SizeOfOperand(weights, x.rows);
  // The pairs, and the sums behind them.
  auto* sums = reinterpret_cast<float*>(memory + size.pairs * sizeof(uint32_t));
  const ActivationTiles tiles{.tile_rows = TileRowsOf(weights, x.rows),
                              .pairs = reinterpret_cast<uint32_t*>(memory),
                              .sums = kernel.sums_excess != 0 ? sums : nullptr,
                              .excess = kernel.sums_excess,
                              .num_slices = weights.num_slices(),
                              .depth = weights.slice_depth(),
                              .padded_depth = weights.padded_slice_depth()};
  if (IsTiled(weights)) {
    HWY_DYNAMIC_DISPATCH(FillTiles)(context, x, tiles);
  } else {
    HWY_DYNAMIC_DISPATCH(FillBlocks)(context, x, tiles);
  }
  return {tiles.pairs, 2 * tiles.pairs_per_row(), tiles.tile_rows, tiles.sums,
          tiles.sums_per_row()};
}

}  // namespace sluice
#endif  // HWY_ONCE
