// Products of BF16 weights, laid out as the stream itself.
#include "kernels/cpu/gemm_avx512-inl.h"
#include "kernels/cpu/pair_products-inl.h"

namespace sluice {
namespace {

// Rows whose sums fit the registers beside what they are multiplied with.
constexpr int kTileRows = 12;
// A run of weights that stays in the first-level cache while several tiles use it.
constexpr int64_t kResidentBytes = 8192;
// How far ahead the second-level cache is asked for weights. The first is asked one run ahead, for what
// the second has by then: by itself, for what lay in memory, 16 rows took 1.15 to 1.2 times as long on a Zen 4.
constexpr int64_t kFarAheadBytes = 32768;

template <class Products>
struct StreamRun {
  typename Products::Rows x;
  const std::byte* w;  // vectors of the stream
  int64_t pairs;
  float* sums;  // [rows, kPanelWidth]
  bool starts_at_zero;
  int64_t fetched_first = 0;  // of the vectors of each pair ahead, the first to fetch
};

// Several rows compute longer on a weight than the processor looks ahead, so weights are asked for
// before they are needed, kFetched vectors with every pair.
template <class Products, int kRows, int kVectors, int kFetched>
void AddStream(const StreamRun<Products>& run) {
  float* const to = run.sums;
  __m512 sums[kRows][kVectors];
#pragma GCC unroll 32
  for (int i = 0; i < kRows * kVectors; ++i) {
    const int64_t at = i / kVectors * kPanelWidth + i % kVectors * kLanes;
    sums[i / kVectors][i % kVectors] =
        run.starts_at_zero ? _mm512_setzero_ps() : _mm512_loadu_ps(to + at);
  }
  typename Products::Rows x = run.x;
  const std::byte* w = run.w;
  const std::byte* ahead = w + run.fetched_first * kVectorBytes;
  for (int64_t pair = 0; pair < run.pairs; ++pair, x.Next()) {
#pragma GCC unroll 2
    for (int v = 0; v < kFetched; ++v) {
      _mm_prefetch(ahead + kFarAheadBytes + v * kVectorBytes, _MM_HINT_T1);
      _mm_prefetch(ahead + kResidentBytes + v * kVectorBytes, _MM_HINT_T0);
    }
    typename Products::Weight weights[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      weights[v] = Products::WeightOf(_mm512_loadu_si512(w + v * kVectorBytes));
    }
    w += kVectors * kVectorBytes;
    ahead += kVectors * kVectorBytes;
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const auto activation = x.Of(r);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = Products::Add(sums[r][v], activation, weights[v]);
      }
    }
  }
#pragma GCC unroll 32
  for (int i = 0; i < kRows * kVectors; ++i) {
    const int64_t at = i / kVectors * kPanelWidth + i % kVectors * kLanes;
    _mm512_storeu_ps(to + at, sums[i / kVectors][i % kVectors]);
  }
}

// AddStream of 1 to kMost rows.
template <class Products, int kVectors, int kFetched, int kMost = kTileRows>
void AddStreamRows(const StreamRun<Products>& run) {
  if (run.x.step == kMost) return AddStream<Products, kMost, kVectors, kFetched>(run);
  if constexpr (kMost > 1) AddStreamRows<Products, kVectors, kFetched, kMost - 1>(run);
}

// AddStream of one of `num_tiles` tiles, which fetch the next run together: a vector of each pair
// by one tile, the other by the next, so that memory has as much to do in the one as in the other.
template <class Products, int kVectors, int kUnfetched>
void AddStreamTile(int64_t tile, int64_t num_tiles, StreamRun<Products> run) {
  const bool shared = kVectors > 1 && num_tiles > 1;
  if (run.x.step <= kUnfetched || tile >= Least(kVectors, num_tiles)) {
    AddStreamRows<Products, kVectors, 0>(run);
  } else if (shared) {
    run.fetched_first = tile;
    AddStreamRows<Products, kVectors, 1>(run);
  } else {
    AddStreamRows<Products, kVectors, kVectors>(run);
  }
}

template <class Products, int kVectors, int kUnfetched>
void MultiplyBf16Panel(const SliceRun& run) {
  constexpr int64_t kResidentPairs = kResidentBytes / (kVectors * kVectorBytes);
  [[maybe_unused]] const typename Products::Rules rules;
  const int64_t pairs = run.depth / 2;
  const int64_t num_tiles = (run.rows + run.tile_rows - 1) / run.tile_rows;
  // With one tile, nothing is read twice.
  const bool at_once = num_tiles == 1 && !Products::kInPieces;
  const int64_t step = at_once ? pairs : kResidentPairs;
  for (int64_t first = 0; first < pairs; first += step) {
    const int64_t count = Least(step, pairs - first);
    for (int64_t tile = 0; tile < num_tiles; ++tile) {
      const typename Products::template Tile<kResidentPairs * kTileRows> x(TileOf(run, tile, first),
                                                                           count);
      AddStreamTile<Products, kVectors, kUnfetched>(
          tile, num_tiles,
          {.x = x.rows,
           .w = run.w + first * kVectors * kVectorBytes,
           .pairs = count,
           .sums = run.sums + tile * run.tile_rows * kPanelWidth,
           .starts_at_zero = first == 0});
    }
  }
}

template <class Products, int kUnfetched>
void MultiplyBf16(const SliceRun& run) {
  return run.width == kPanelWidth ? MultiplyBf16Panel<Products, 2, kUnfetched>(run)
                                  : MultiplyBf16Panel<Products, 1, kUnfetched>(run);
}

void MultiplyByInstruction(const SliceRun& run) { MultiplyBf16<ByInstruction, 2>(run); }

// One row waits for memory.
void MultiplyByFloats(const SliceRun& run) {
  return run.rows == 1 ? MultiplyBf16<ByInstruction, 0>(run) : MultiplyBf16<ByFloats, 0>(run);
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

constexpr GemmKernel KernelWith(void (*multiply)(const SliceRun&)) {
  return {.activations = ActivationLayout::kBFloat16Tiles,
          .depth_step = 2,
          .tile_rows = kTileRows,
          .pack = PackBf16,
          .multiply = multiply};
}
constexpr GemmKernel kByInstruction = KernelWith(MultiplyByInstruction);
constexpr GemmKernel kByFloats = KernelWith(MultiplyByFloats);

}  // namespace

const GemmKernel& Avx512Bf16GemmKernel(WeightFormat format, PairProducts products) {
  if (format != WeightFormat::kBF16) return Avx512QuantizedGemmKernel(format, products);
  return products == PairProducts::kFloats ? kByFloats : kByInstruction;
}

}  // namespace sluice
