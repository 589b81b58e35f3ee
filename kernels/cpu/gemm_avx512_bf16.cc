// Products of BF16 weights, laid out as the stream itself.
#include "kernels/cpu/gemm_avx512-inl.h"

namespace sluice {
namespace {

struct StreamRun {
  TileRows x;
  const std::byte* w;  // vectors of the stream
  int64_t pairs;
  float* sums;  // [rows, kPanelWidth]
  bool starts_at_zero;
};

// A tile of several rows computes longer on a weight than the processor looks ahead, so the first
// one to read a panel asks for weights this many bytes before it needs them.
constexpr int64_t kAhead = 8192;
enum class Fetch { kAhead, kNone };

template <int kRows, int kVectors, Fetch kFetch>
void AddStream(const StreamRun& run) {
  __m512 sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      sums[r][v] = run.starts_at_zero ? _mm512_setzero_ps()
                                      : _mm512_loadu_ps(run.sums + r * kPanelWidth + v * kLanes);
    }
  }
  const uint32_t* x = run.x.pairs;
  const std::byte* w = run.w;
  for (int64_t pair = 0; pair < run.pairs; ++pair, x += run.x.step, w += kVectors * 64) {
    __m512bh weights[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      if constexpr (kFetch == Fetch::kAhead) _mm_prefetch(w + v * 64 + kAhead, _MM_HINT_T0);
      weights[v] = LoadPairs(w + v * 64);
    }
    for (int r = 0; r < kRows; ++r) {
      const __m512bh activation = BroadcastPair(x[r]);
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = _mm512_dpbf16_ps(sums[r][v], activation, weights[v]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      _mm512_storeu_ps(run.sums + r * kPanelWidth + v * kLanes, sums[r][v]);
    }
  }
}

// AddStream of 1 to kMost rows.
template <int kVectors, Fetch kFetch, int kMost = kTileRows>
void AddStreamRows(int64_t rows, const StreamRun& run) {
  if (rows == kMost) return AddStream<kMost, kVectors, kFetch>(run);
  if constexpr (kMost > 1) AddStreamRows<kVectors, kFetch, kMost - 1>(rows, run);
}

template <int kVectors>
void MultiplyBf16Panel(const SliceRun& run) {
  // A run of pairs that stays in the second-level cache while the tiles use it; with one tile,
  // nothing is read twice.
  constexpr int64_t kResidentPairs = 512;
  const int64_t pairs = run.depth / 2;
  const int64_t step = run.rows <= kTileRows ? pairs : kResidentPairs;
  for (int64_t first = 0; first < pairs; first += step) {
    for (int64_t row = 0; row < run.rows; row += kTileRows) {
      const TileRows tile = TileOf(run, row / kTileRows, first);
      const StreamRun stream{.x = tile,
                             .w = run.w + first * kVectors * 64,
                             .pairs = Least(step, pairs - first),
                             .sums = run.sums + row * kPanelWidth,
                             .starts_at_zero = first == 0};
      if (row == 0 && tile.step > 2) {
        AddStreamRows<kVectors, Fetch::kAhead>(tile.step, stream);
      } else {
        AddStreamRows<kVectors, Fetch::kNone>(tile.step, stream);
      }
    }
  }
}

void MultiplyBf16(const SliceRun& run) {
  return run.width == kPanelWidth ? MultiplyBf16Panel<2>(run) : MultiplyBf16Panel<1>(run);
}

void PackBf16(const PackRun& run) {
  constexpr int64_t kBlock = 16;  // pairs; a cache line of each row
  auto* out = At<uint16_t>(run.out);
  for (int64_t begin = 0; begin < run.depth; begin += 2 * kBlock) {
    const int64_t end = Least(run.depth, begin + 2 * kBlock);
    for (int64_t n = 0; n < run.outputs; ++n) {
      const auto* row = reinterpret_cast<const uint16_t*>(run.rows + n * run.row_bytes);
      for (int64_t k = begin; k < end; ++k) out[(k / 2 * run.width + n) * 2 + k % 2] = row[k];
    }
  }
}

constexpr GemmKernel kBf16{.activations = ActivationLayout::kBFloat16Tiles,
                           .needs_sums = false,
                           .depth_step = 2,
                           .pack = PackBf16,
                           .multiply = MultiplyBf16};

}  // namespace

const GemmKernel& Avx512Bf16GemmKernel(WeightFormat format) {
  return format == WeightFormat::kBF16 ? kBf16 : Avx512QuantizedGemmKernel(format);
}

}  // namespace sluice
