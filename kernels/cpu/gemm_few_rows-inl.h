// What products of few rows share. Belongs to the files that include it, which are compiled for
// AVX-512 alone, as gemm_avx512-inl.h does.
#pragma once

#include "kernels/cpu/float_pairs-inl.h"
#include "kernels/cpu/gemm_few_rows.h"

namespace sluice {
namespace {

constexpr int64_t kPairs = kTileDepth / 2;

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
