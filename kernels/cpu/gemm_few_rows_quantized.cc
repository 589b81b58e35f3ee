#include "kernels/cpu/gemm_few_rows-inl.h"
#include "kernels/cpu/gemm_quantized_codes-inl.h"

namespace sluice {
namespace {

template <class Code, int kRows, int kVectors>
void AddGroups(const FewRowsGroups& groups) {
  constexpr int64_t kChunks = kGroupPairs * kVectors / Code::kVectorsOfChunk;
  const SubnormalsAreZero subnormals_are_zero;
  const Code code;
  const std::byte* chunk = groups.w;
  for (int64_t g = 0; g < groups.count; ++g) {
    Fetch<_MM_HINT_T0>(chunk + kNearBytes, kGroupBytes<Code, kVectors> / 64);
    const StepRows<kRows> x(groups.x + g * kTileBytes);
    __m512 even[kRows][kVectors], odd[kRows][kVectors];
#pragma GCC unroll 8
    for (int i = 0; i < kRows * kVectors; ++i) {
      even[i / kVectors][i % kVectors] = odd[i / kVectors][i % kVectors] = _mm512_setzero_ps();
    }
    const float* x_even = x.even[0];
    const float* x_odd = x.odd[0];
    for (int64_t i = 0; i < kChunks; ++i, chunk += Code::kLinesOfChunk * 64) {
      Fetch<_MM_HINT_T1>(chunk + kFarBytes, Code::kLinesOfChunk);
      __m512i vectors[Code::kVectorsOfChunk];
      code.Unpack(chunk, vectors);
#pragma GCC unroll 8
      for (int v = 0; v < Code::kVectorsOfChunk; ++v) {
        const __m512 even_weights = Even(vectors[v]), odd_weights = Odd(vectors[v]);
        const int at = v % kVectors, pair = v / kVectors;
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          even[r][at] =
              _mm512_fmadd_ps(even_weights, _mm512_set1_ps(x_even[r * kPairs + pair]), even[r][at]);
          odd[r][at] =
              _mm512_fmadd_ps(odd_weights, _mm512_set1_ps(x_odd[r * kPairs + pair]), odd[r][at]);
        }
      }
      x_even += Code::kVectorsOfChunk / kVectors;
      x_odd += Code::kVectorsOfChunk / kVectors;
    }
    float* const sums = groups.sums + g * groups.sums_step;
#pragma GCC unroll 8
    for (int i = 0; i < kRows * kVectors; ++i) {
      const int r = i / kVectors, v = i % kVectors;
      // A tile of sums begins as zero.
      const __m512 sum = _mm512_add_ps(_mm512_setzero_ps(), _mm512_add_ps(even[r][v], odd[r][v]));
      _mm512_storeu_ps(sums + r * kPanelWidth + v * kTileSide, sum);
    }
  }
}

template <class Code, int kMost = kMostFewRows>
void AddRows(const FewRowsGroups& groups, int64_t rows) {
  if constexpr (kMost > 1) {
    if (rows < kMost) return AddRows<Code, kMost - 1>(groups, rows);
  }
  return groups.width == kPanelWidth ? AddGroups<Code, kMost, 2>(groups)
                                     : AddGroups<Code, kMost, 1>(groups);
}

}  // namespace

void AddFewRowsOfGroups(WeightFormat format, const FewRowsGroups& groups, int64_t rows) {
  WithCode(format, [&]<class, class Numbers>() { AddRows<Numbers>(groups, rows); });
}

}  // namespace sluice
