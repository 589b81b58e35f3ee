// The two ways of pair_products.h, as parameters of kernels. Each has
//
//   Weight     a vector of the stream
//   Rows       the activations of some rows, one pair after the other
//   Tile       the same of a run of pairs, where Rows finds them
//   Rules      how numbers are rounded while it lives
//   kInPieces  whether Tile copies, and sums are multiplied with scales under other Rules: so runs
//              are short
//
// Belongs to the files that include it, as gemm_avx512-inl.h does.
#pragma once

#include "kernels/cpu/float_pairs-inl.h"
#include "kernels/cpu/gemm_avx512-inl.h"

namespace sluice {
namespace {

struct ByInstruction {
  static constexpr bool kInPieces = false;

  struct Rules {};  // the instruction has its own
  using Activation = __m512bh;

  using Weight = __m512bh;

  static Weight WeightOf(__m512i vector) { return Pairs(vector); }

  struct Rows {
    const uint32_t* pairs;
    int64_t step;

    Activation Of(int row) const { return BroadcastPair(pairs[row]); }
    void Next() { pairs += step; }
  };

  template <int64_t kMost>
  struct Tile {
    const Rows rows;
    Tile(const TileRows& x, int64_t /*pairs*/) : rows{x.pairs, x.step} {}
  };

  static __m512 Add(__m512 sum, Activation x, Weight w) { return _mm512_dpbf16_ps(sum, x, w); }
};

struct ByFloats {
  static constexpr bool kInPieces = true;

  using Rules = SubnormalsAreZero;

  struct Weight {
    __m512 even, odd;
  };
  using Activation = Weight;

  static Weight WeightOf(__m512i vector) { return {Even(vector), Odd(vector)}; }

  struct Rows {
    const float* even;
    const float* odd;
    int64_t step;

    Activation Of(int row) const { return {_mm512_set1_ps(even[row]), _mm512_set1_ps(odd[row])}; }
    void Next() {
      even += step;
      odd += step;
    }
  };

  // Of up to kMost pairs of all rows together.
  template <int64_t kMost>
  struct Tile {
    static_assert(kMost % kLanes == 0);
    alignas(64) float even[kMost], odd[kMost];
    const Rows rows;

    Tile(const TileRows& x, int64_t pairs) : rows{even, odd, x.step} {
      const int64_t count = pairs * x.step;
      for (int64_t i = 0; i < count; i += kLanes) {
        const auto of_count = static_cast<__mmask16>((1u << Least(kLanes, count - i)) - 1);
        const __m512i both = _mm512_maskz_loadu_epi32(of_count, x.pairs + i);
        _mm512_store_ps(even + i, Even(both));
        _mm512_store_ps(odd + i, Odd(both));
      }
    }
  };

  // The compiler sees many ways to write a multiply-add, and takes some that need moves.
  static void AddProduct(__m512 x, __m512 w, __m512& sum) {
    asm("vfmadd231ps %1, %2, %0" : "+v"(sum) : "v"(x), "v"(w));
  }
  static __m512 Add(__m512 sum, Activation x, Weight w) {
    AddProduct(x.odd, w.odd, sum);
    AddProduct(x.even, w.even, sum);
    return sum;
  }
};

}  // namespace
}  // namespace sluice
