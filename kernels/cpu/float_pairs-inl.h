// Pairs of bfloat16 numbers as two floats each, with what multiplying those takes to have the bits of
// instructions that multiply pairs. Belongs to the files that include it, as gemm_avx512-inl.h does.
#pragma once

#include <immintrin.h>

namespace sluice {
namespace {

// Subnormal numbers are read and written as zero while it lives, as instructions that multiply
// bfloat16 numbers do always.
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
inline __m512 Even(__m512i pairs) { return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)); }
inline __m512 Odd(__m512i pairs) {
  return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(-65536)));
}

}  // namespace
}  // namespace sluice
