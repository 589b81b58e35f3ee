// What products of few rows share. Belongs to the files that include it, which are compiled for
// AVX-512 alone, as gemm_avx512-inl.h does.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/gemm_few_rows.h"

namespace sluice {
namespace {

constexpr int64_t kPairs = kTileDepth / 2;

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

}  // namespace
}  // namespace sluice
