#include "kernels/cpu/gemm_few_rows.h"

#include <immintrin.h>

namespace sluice {
namespace {

constexpr int64_t kPairs = kTileDepth / 2;
constexpr int64_t kVectorBytes = 64;

// Subnormal numbers are read and written as zero while it lives, as the tile unit does always.
class SubnormalsAreZero {
 public:
  SubnormalsAreZero() : before_(_mm_getcsr()) {
    constexpr unsigned kReadAsZero = 1u << 6, kWrittenAsZero = 1u << 15;
    _mm_setcsr(before_ | kReadAsZero | kWrittenAsZero);
    asm volatile("" : : : "memory");  // what is multiplied is loaded after this
  }
  ~SubnormalsAreZero() {
    asm volatile("" : : : "memory");
    _mm_setcsr(before_);
  }
  SubnormalsAreZero(const SubnormalsAreZero&) = delete;
  SubnormalsAreZero& operator=(const SubnormalsAreZero&) = delete;

 private:
  const unsigned before_;
};

// The halves of bfloat16 pairs, as floats.
__m512 Even(__m512i pairs) { return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)); }
__m512 Odd(__m512i pairs) {
  return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(-65536)));
}

// The activations of a step, pair by pair.
template <int kRows>
struct StepRows {
  alignas(64) float even[kRows][kPairs], odd[kRows][kPairs];

  explicit StepRows(const std::byte* x) {
    for (int r = 0; r < kRows; ++r) {
      const __m512i pairs = _mm512_loadu_si512(x + r * kTileDepth * 2);
      _mm512_store_ps(even[r], Even(pairs));
      _mm512_store_ps(odd[r], Odd(pairs));
    }
  }
};

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

void AddFewRows(const TileStrip& strip, int64_t rows, int64_t vectors, int64_t count,
                int64_t sums_step) {
  const SubnormalsAreZero subnormals_are_zero;
  const AddStripFunction add = kAddStrip[rows - 1][vectors - 1];
  TileStrip each = strip;
  for (int64_t i = 0; i < count; ++i, each = NextStrip(each, vectors, sums_step)) add(each);
}

}  // namespace sluice
