#include "kernels/cpu/gemm.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "kernels/check.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/gemm.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/simd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kPanelWidth = CpuPackedMatrix::kPanelWidth;
// Rows whose sums are kept in registers at a time.
constexpr int kTileRows = 6;
// Rows whose sums are kept in cache while a panel is read, a multiple of kTileRows.
constexpr int64_t kBlockRows = 96;
// A run of a panel of this size stays in the first-level cache while the tiles of a block use it.
constexpr int64_t kResidentBytes = 32768;
// Multiply-adds below which a task is not worth handing over.
constexpr int64_t kWorthATask = 32768;

// Vectors of outputs that a tile of `rows` rows can hold: its sums, one row of weights and one
// broadcast activation together fill the registers.
constexpr int TileVectors(int rows) {
  constexpr int kRegisters = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL ||
                                     (HWY_ARCH_ARM_A64 && HWY_TARGET == HWY_NEON)
                                 ? 32
                                 : 16;
  constexpr int kWholePanel = kPanelWidth / hn::MaxLanes(FloatTag());
  const int fit = (kRegisters - 1) / (rows + 1);
  return static_cast<int>(std::bit_floor(static_cast<unsigned>(std::min(fit, kWholePanel))));
}

// A run of k over some rows and one panel: sums[r, c] += x[r, k] * w[k, c].
template <class W>
struct PanelRun {
  const float* x;  // [rows, >= depth], x_stride apart
  int64_t x_stride;
  const W* w;  // [depth, width] contiguous
  int64_t depth;
  int64_t width;
  float* sums;  // [rows, kPanelWidth]
  bool starts_at_zero;
};

template <int kRows, int kVectors, class W>
void AddTile(const PanelRun<W>& run, int64_t column) {
  const FloatTag d;
  using V = hn::Vec<FloatTag>;
  const int64_t lanes = hn::Lanes(d);
  const float* x[kRows];
  V sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    x[r] = run.x + r * run.x_stride;
    for (int v = 0; v < kVectors; ++v) {
      const float* from = run.sums + r * kPanelWidth + column + v * lanes;
      sums[r][v] = run.starts_at_zero ? hn::Zero(d) : hn::Load(d, from);
    }
  }
  const W* w = run.w + column;
  for (int64_t k = 0; k < run.depth; ++k, w += run.width) {
    V weights[kVectors];
    for (int v = 0; v < kVectors; ++v) weights[v] = LoadWide(d, w + v * lanes);
    for (int r = 0; r < kRows; ++r) {
      const V activation = hn::Set(d, x[r][k]);
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = hn::MulAdd(activation, weights[v], sums[r][v]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      hn::Store(sums[r][v], d, run.sums + r * kPanelWidth + column + v * lanes);
    }
  }
}

// All columns of the panel from `column` on, by the widest tiles that fit.
template <int kRows, int kVectors, class W>
void AddColumns(const PanelRun<W>& run, int64_t column) {
  const int64_t step = kVectors * hn::Lanes(FloatTag());
  for (; column + step <= run.width; column += step) AddTile<kRows, kVectors>(run, column);
  if constexpr (kVectors > 1) {
    if (column < run.width) AddColumns<kRows, kVectors / 2>(run, column);
  }
}

template <class W>
void AddRows(PanelRun<W> run, int64_t rows) {
  for (; rows >= kTileRows; rows -= kTileRows) {
    AddColumns<kTileRows, TileVectors(kTileRows)>(run, 0);
    run.x += kTileRows * run.x_stride;
    run.sums += kTileRows * kPanelWidth;
  }
  static_assert(kTileRows == 6);
  switch (rows) {
    case 5:
      return AddColumns<5, TileVectors(5)>(run, 0);
    case 4:
      return AddColumns<4, TileVectors(4)>(run, 0);
    case 3:
      return AddColumns<3, TileVectors(3)>(run, 0);
    case 2:
      return AddColumns<2, TileVectors(2)>(run, 0);
    case 1:
      return AddColumns<1, TileVectors(1)>(run, 0);
  }
}

// The sums of one slice: `depth` inputs from `x` and `w` on.
template <class W>
void SumSlice(MatrixView x, int64_t first_input, const W* w, int64_t width, int64_t depth,
              float* sums) {
  // With a single tile nothing is read twice, and the sums may stay in registers throughout.
  const int64_t resident = kResidentBytes / (kPanelWidth * static_cast<int64_t>(sizeof(W)));
  const int64_t step = x.rows <= kTileRows ? depth : resident;
  for (int64_t k = 0; k < depth; k += step) {
    AddRows<W>({.x = x.Row(0) + first_input + k,
                .x_stride = x.stride,
                .w = w + k * width,
                .depth = std::min(step, depth - k),
                .width = width,
                .sums = sums,
                .starts_at_zero = k == 0},
               x.rows);
  }
}

void AddTo(const float* from, int64_t count, float* to) {
  ForEachVector(count, [=](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::Add(hn::LoadU(d, from + i), hn::LoadU(d, to + i)), d, to + i);
  });
}

// One panel of outputs of at most kBlockRows rows. `scratch` holds log2(num_slices) + 2 sets of
// kBlockRows * kPanelWidth sums.
template <class W>
void MultiplyPanel(MatrixView x, const CpuPackedMatrix& weights, int64_t panel, float* scratch,
                   MatrixView out) {
  const int64_t set_size = x.rows * kPanelWidth;
  const int64_t width = weights.PanelWidth(panel);
  const int64_t depth = weights.num_inputs() / weights.num_slices();
  // Like a binary counter: set i holds the sum of the last complete run of 2^i slices that still
  // waits for its right-hand neighbour. The sums under way lie behind all of them.
  const int num_levels = std::countr_zero(static_cast<unsigned>(weights.num_slices())) + 1;
  float* current = scratch + num_levels * set_size;
  for (unsigned slice = 0; slice < static_cast<unsigned>(weights.num_slices()); ++slice) {
    SumSlice(x, slice * depth, weights.Panel<W>(panel) + slice * depth * width, width, depth,
             current);
    int level = 0;
    for (; (slice >> level) % 2 == 1; ++level) AddTo(scratch + level * set_size, set_size, current);
    if (weights.num_slices() > 1) std::copy_n(current, set_size, scratch + level * set_size);
  }
  for (int64_t r = 0; r < x.rows; ++r) {
    std::copy_n(current + r * kPanelWidth, weights.PanelOutputs(panel),
                out.Row(r) + panel * kPanelWidth);
  }
}

void GemmTiles(CpuContext& context, MatrixView x, const CpuPackedMatrix& weights, MatrixView out) {
  const int64_t num_panels = weights.num_panels();
  const int64_t num_blocks = (x.rows + kBlockRows - 1) / kBlockRows;
  const int64_t work = std::min(x.rows, kBlockRows) * weights.num_inputs() * kPanelWidth;
  const int64_t panels_per_task = std::min(num_panels, std::max<int64_t>(1, kWorthATask / work));
  const int64_t runs = (num_panels + panels_per_task - 1) / panels_per_task;
  const int num_sets = std::countr_zero(static_cast<unsigned>(weights.num_slices())) + 2;
  const auto multiply =
      weights.format() == WeightFormat::kF32 ? MultiplyPanel<float> : MultiplyPanel<uint16_t>;
  // Tasks that follow each other share a panel, so that it is read from memory once.
  context.pool.ParallelFor(runs * num_blocks, [&](int64_t task, int worker) {
    const int64_t first_row = task % num_blocks * kBlockRows;
    const int64_t rows = std::min(kBlockRows, x.rows - first_row);
    const int64_t first_panel = task / num_blocks * panels_per_task;
    const int64_t end_panel = std::min(num_panels, first_panel + panels_per_task);
    float* scratch = context.scratch.Floats(worker, num_sets * kBlockRows * kPanelWidth);
    for (int64_t panel = first_panel; panel < end_panel; ++panel) {
      multiply(x.Rows(first_row, rows), weights, panel, scratch, out.Rows(first_row, rows));
    }
  });
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice {

HWY_EXPORT(GemmTiles);

void Gemm(CpuContext& context, MatrixView x, const CpuPackedMatrix& weights, MatrixView out) {
  SLUICE_CHECK(x.cols == weights.num_inputs() && out.cols == weights.num_outputs());
  SLUICE_CHECK(x.rows == out.rows && x.dtype == DType::kF32);
  if (x.rows > 0) HWY_DYNAMIC_DISPATCH(GemmTiles)(context, x, weights, out);
}

}  // namespace sluice
#endif  // HWY_ONCE
