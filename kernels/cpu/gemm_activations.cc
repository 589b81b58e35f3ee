#include "kernels/cpu/gemm_activations.h"

#include <algorithm>
#include <array>

#include "kernels/fp8_activations.h"

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

// How a group of rows is rearranged: some tasks, which threads share.
struct GroupFill {
  MatrixView x;
  const int32_t* rows;
  int64_t count;
  ActivationLayout layout;
  ActivationTiles tiles;  // of bfloat16
  float* floats;          // of floats
  int64_t first_task;

  const float* Row(int64_t row) const { return x.Row(rows == nullptr ? row : rows[row]); }
  int64_t NumBlocks() const { return tiles.num_slices * tiles.padded_depth / kRowsDepth; }
  // Blocks of 16 rows that are worth a task, so that no thread has all of few rows.
  int64_t BlockRun() const {
    return std::max<int64_t>(1, kElementsWorthATask / (std::min(kRowsStep, count) * kRowsDepth));
  }
  int64_t RowRun() const { return std::max<int64_t>(1, kElementsWorthATask / x.cols); }
  int64_t NumTasks() const {
    switch (layout) {
      case ActivationLayout::kFloats:
      case ActivationLayout::kRoundedFloats:
        return floats == nullptr ? 0 : (count + RowRun() - 1) / RowRun();
      case ActivationLayout::kBFloat16Tiles:
        return (count + tiles.tile_rows - 1) / tiles.tile_rows;
      case ActivationLayout::kBFloat16Blocks:
        return (count + kRowsStep - 1) / kRowsStep * ((NumBlocks() + BlockRun() - 1) / BlockRun());
    }
    return 0;
  }
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

// One tile of a group.
void FillTile(const GroupFill& fill, int64_t tile, uint32_t* rounded) {
  const ActivationTiles& tiles = fill.tiles;
  const int64_t first = tile * tiles.tile_rows;
  const int64_t rows = std::min(tiles.tile_rows, fill.count - first);
  uint32_t* pairs = tiles.pairs + first * tiles.pairs_per_row();
  float* sums = tiles.sums == nullptr ? nullptr : tiles.sums + first * tiles.sums_per_row();
  for (int64_t r = 0; r < rows; ++r) {
    FillTileRow(fill.Row(first + r), tiles, rows, rounded, pairs + r,
                sums == nullptr ? nullptr : sums + r);
  }
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
void FillBlockRun(const GroupFill& fill, int64_t first, int64_t rows, int64_t begin, int64_t end) {
  const ActivationTiles& tiles = fill.tiles;
  const int64_t slice_blocks = tiles.padded_depth / kRowsDepth;
  auto* to = reinterpret_cast<uint16_t*>(tiles.pairs + first * tiles.pairs_per_row()) +
             begin * kRowsStep * kRowsDepth;
  for (int64_t block = begin; block < end; ++block) {
    const int64_t slice = block / slice_blocks, k = block % slice_blocks * kRowsDepth;
    for (int64_t r = 0; r < rows; ++r, to += kRowsDepth) {
      FillBlockRow(fill.Row(first + r) + slice * tiles.depth + k,
                   std::min(kRowsDepth, tiles.depth - k), to);
    }
    to = std::fill_n(to, (kRowsStep - rows) * kRowsDepth, uint16_t{0});
  }
}

// A part of 16 rows' inputs.
void FillBlocks(const GroupFill& fill, int64_t task) {
  const int64_t num_blocks = fill.NumBlocks(), run = fill.BlockRun();
  const int64_t num_runs = (num_blocks + run - 1) / run;
  const int64_t first = task / num_runs * kRowsStep;
  const int64_t begin = task % num_runs * run;
  FillBlockRun(fill, first, std::min(kRowsStep, fill.count - first), begin,
               std::min(num_blocks, begin + run));
}

void FillRows(const GroupFill& fill, int64_t task) {
  const int64_t run = fill.RowRun();
  for (int64_t t = task * run; t < std::min(fill.count, (task + 1) * run); ++t) {
    float* const to = fill.floats + t * fill.x.cols;
    if (fill.layout == ActivationLayout::kFloats) {
      std::copy_n(fill.Row(t), fill.x.cols, to);
    } else {
      RoundRow(fill.Row(t), fill.x.cols, to);
    }
  }
}

// Task `index` of those that a group has. `rounded` holds a padded slice of tiles.
void RunFill(const GroupFill& fill, int64_t index, uint32_t* rounded) {
  switch (fill.layout) {
    case ActivationLayout::kFloats:
    case ActivationLayout::kRoundedFloats:
      return FillRows(fill, index);
    case ActivationLayout::kBFloat16Tiles:
      return FillTile(fill, index, rounded);
    case ActivationLayout::kBFloat16Blocks:
      return FillBlocks(fill, index);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice {

HWY_EXPORT(RunFill);

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

size_t GroupBytes(const CpuPackedMatrix& weights, int64_t count) {
  switch (weights.kernel().activations) {
    case ActivationLayout::kFloats:
    case ActivationLayout::kRoundedFloats:
      return count * weights.num_inputs() * sizeof(float);
    case ActivationLayout::kBFloat16Tiles:
    case ActivationLayout::kBFloat16Blocks:
      break;
  }
  const OperandSize size = SizeOfOperand(weights, count);
  return size.pairs * sizeof(uint32_t) + size.sums * sizeof(float);
}

namespace {

constexpr size_t kGroupAlignment = 64;
// Whether its rows are multiplied where they are.
bool StaysInPlace(const RowGroup& group) {
  return group.rows == nullptr && group.weights->kernel().activations == ActivationLayout::kFloats;
}

size_t AlignedBytes(const RowGroup& group) {
  if (StaysInPlace(group)) return 0;
  const size_t bytes = GroupBytes(*group.weights, group.count);
  return (bytes + kGroupAlignment - 1) / kGroupAlignment * kGroupAlignment;
}

// A group's rows go to `memory`, or stay where they are.
GroupFill FillOf(const RowGroup& group, std::byte* memory) {
  const CpuPackedMatrix& weights = *group.weights;
  const GemmKernel& kernel = weights.kernel();
  GroupFill fill{.x = group.x,
                 .rows = group.rows,
                 .count = group.count,
                 .layout = kernel.activations,
                 .tiles = {},
                 .floats = nullptr,
                 .first_task = 0};
  if (StaysInPlace(group)) return fill;
  if (fill.layout == ActivationLayout::kFloats || fill.layout == ActivationLayout::kRoundedFloats) {
    fill.floats = reinterpret_cast<float*>(memory);
    return fill;
  }
  const OperandSize size = SizeOfOperand(weights, group.count);
  // The pairs, and the sums behind them.
  auto* sums = reinterpret_cast<float*>(memory + size.pairs * sizeof(uint32_t));
  fill.tiles = {.tile_rows = TileRowsOf(weights, group.count),
                .pairs = reinterpret_cast<uint32_t*>(memory),
                .sums = kernel.sums_excess != 0 ? sums : nullptr,
                .excess = kernel.sums_excess,
                .num_slices = weights.num_slices(),
                .depth = weights.slice_depth(),
                .padded_depth = weights.padded_slice_depth()};
  return fill;
}

GemmActivations ActivationsOf(const GroupFill& fill) {
  switch (fill.layout) {
    case ActivationLayout::kFloats:
    case ActivationLayout::kRoundedFloats:
      if (fill.floats == nullptr) return {fill.x.data, fill.x.stride, 1, nullptr, 0};
      return {fill.floats, fill.x.cols, 1, nullptr, 0};
    case ActivationLayout::kBFloat16Tiles:
    case ActivationLayout::kBFloat16Blocks:
      break;
  }
  const ActivationTiles& tiles = fill.tiles;
  return {tiles.pairs, 2 * tiles.pairs_per_row(), tiles.tile_rows, tiles.sums,
          tiles.sums_per_row()};
}

// Runs the tasks of some groups, whose first_task is filled in.
void RunFills(CpuContext& context, absl::Span<const GroupFill> fills, int64_t num_tasks) {
  int64_t slice = 0;  // the longest of tiles
  for (const GroupFill& fill : fills) slice = std::max(slice, fill.tiles.padded_depth);
  context.pool.ParallelFor(num_tasks, [&](int64_t task, int worker) {
    const auto after = std::upper_bound(
        fills.begin(), fills.end(), task,
        [](int64_t index, const GroupFill& fill) { return index < fill.first_task; });
    const GroupFill& fill = *(after - 1);
    auto* rounded =
        reinterpret_cast<uint32_t*>(context.scratch.Bytes(worker, slice * sizeof(uint32_t)));
    HWY_DYNAMIC_DISPATCH(RunFill)(fill, task - fill.first_task, rounded);
  });
}

}  // namespace

void PrepareGroups(CpuContext& context, absl::Span<const RowGroup> groups,
                   absl::Span<GemmActivations> out) {
  size_t bytes = 0;
  for (const RowGroup& group : groups) bytes += AlignedBytes(group);
  std::byte* memory = context.operand.Bytes(0, bytes);
  constexpr size_t kMostGroups = 64;  // that are filled together
  for (size_t begin = 0; begin < groups.size(); begin += kMostGroups) {
    std::array<GroupFill, kMostGroups> fills;
    const size_t count = std::min(kMostGroups, groups.size() - begin);
    int64_t num_tasks = 0;
    for (size_t i = 0; i < count; ++i) {
      const RowGroup& group = groups[begin + i];
      fills[i] = FillOf(group, memory);
      fills[i].first_task = num_tasks;
      num_tasks += fills[i].NumTasks();
      out[begin + i] = ActivationsOf(fills[i]);
      memory += AlignedBytes(group);
    }
    RunFills(context, {fills.data(), count}, num_tasks);
  }
}

GemmActivations PrepareActivations(CpuContext& context, MatrixView x,
                                   const CpuPackedMatrix& weights) {
  GemmActivations activations;
  PrepareGroups(context, {{.x = x, .count = x.rows, .weights = &weights}}, {&activations, 1});
  return activations;
}

GemmActivations PrepareActivations(CpuContext& context, MatrixView x,
                                   const CpuPackedMatrix& weights, std::byte* memory) {
  const GroupFill fill = FillOf({.x = x, .count = x.rows, .weights = &weights}, memory);
  RunFills(context, {&fill, 1}, fill.NumTasks());
  return ActivationsOf(fill);
}

MatrixView AsMultiplied(CpuContext& context, MatrixView x, const CpuPackedMatrix& weights,
                        int64_t first, int64_t total) {
  if (weights.activations() != ActivationFormat::kFp8) return x;
  float* const rounded =
      context.rounded.Floats(0, std::max(total, first + x.rows * x.cols)) + first;
  ForRowRuns(context, x.rows, x.cols, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t depth = weights.slice_depth();
      for (int64_t k = 0; k < x.cols; k += depth) {
        RoundSliceToFp8({x.Row(t) + k, static_cast<size_t>(depth)}, rounded + t * x.cols + k);
      }
    }
  });
  return {rounded, DType::kF32, x.rows, x.cols, x.cols};
}

void ReserveRounded(CpuContext& context, const CpuPackedMatrix& weights, int64_t max_rows) {
  if (weights.activations() != ActivationFormat::kFp8) return;
  context.rounded.Reserve(max_rows * weights.num_inputs());
}

}  // namespace sluice
#endif  // HWY_ONCE
