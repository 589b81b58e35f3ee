#include "kernels/cpu/gemm_few_rows-inl.h"

namespace sluice {
namespace {

constexpr int64_t kVectorBytes = 64;

template <int kRows, int kVectors>
void AddStrip(const TileStrip& strip) {
  __m512 sums[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      const float* const from = strip.sums + r * kPanelWidth + v * kTileSide;
      sums[r][v] = strip.starts_at_zero ? _mm512_setzero_ps() : _mm512_loadu_ps(from);
    }
  }
  const std::byte* w = strip.w;
  const std::byte* ahead = strip.ahead;
  for (int64_t step = 0; step < strip.steps; ++step) {
    const StepRows<kRows> x(strip.x + step * kTileBytes);
    __m512 even[kRows][kVectors], odd[kRows][kVectors];
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) even[r][v] = odd[r][v] = _mm512_setzero_ps();
    }
    for (int64_t i = 0; i < strip.ahead_lines; ++i, ahead += 64) __builtin_prefetch(ahead);
    for (int64_t p = 0; p < kPairs; ++p) {
      for (int v = 0; v < kVectors; ++v, w += kVectorBytes) {
        const __m512i pairs = _mm512_loadu_si512(w);
        const __m512 even_weights = Even(pairs), odd_weights = Odd(pairs);
        for (int r = 0; r < kRows; ++r) {
          even[r][v] = _mm512_fmadd_ps(even_weights, _mm512_set1_ps(x.even[r][p]), even[r][v]);
          odd[r][v] = _mm512_fmadd_ps(odd_weights, _mm512_set1_ps(x.odd[r][p]), odd[r][v]);
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int v = 0; v < kVectors; ++v) {
        sums[r][v] = _mm512_add_ps(sums[r][v], _mm512_add_ps(even[r][v], odd[r][v]));
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      _mm512_storeu_ps(strip.sums + r * kPanelWidth + v * kTileSide, sums[r][v]);
    }
  }
}

using AddStripFunction = void (*)(const TileStrip&);

// By rows and vectors.
constexpr AddStripFunction kAddStrip[kMostFewRows][2] = {{AddStrip<1, 1>, AddStrip<1, 2>},
                                                         {AddStrip<2, 1>, AddStrip<2, 2>},
                                                         {AddStrip<3, 1>, AddStrip<3, 2>},
                                                         {AddStrip<4, 1>, AddStrip<4, 2>}};

}  // namespace

void AddFewRows(const TileStrip& strip, int64_t rows, int64_t vectors) {
  const SubnormalsAreZero subnormals_are_zero;
  kAddStrip[rows - 1][vectors - 1](strip);
}

}  // namespace sluice
