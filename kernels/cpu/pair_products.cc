#include "kernels/cpu/pair_products.h"

#include <time.h>

#include "kernels/cpu/pair_products-inl.h"

namespace sluice {
namespace {

// A plain generator of random numbers: what other files share isn't used here (gemm_avx512-inl.h).
struct Bits {
  uint32_t state = 1;
  uint32_t Next() {
    state ^= state << 13;
    state ^= state >> 17;
    return state ^= state << 5;
  }
};

// Two bfloat16 numbers, or a float, whose exponents lie near that of 1, near the least, or anywhere
// but among infinities.
uint32_t RandomPair(Bits& bits) {
  const auto exponent = [&] {
    const uint32_t kind = bits.Next() % 4;
    if (kind == 0) return bits.Next() % 4;
    if (kind == 1) return 60 + bits.Next() % 8;  // products of two are about the least
    return kind == 2 ? bits.Next() % 190 : 110 + bits.Next() % 32;
  };
  const uint32_t upper = (bits.Next() & 0x807f) | exponent() << 7;
  return upper << 16 | (bits.Next() & 0x807f) | exponent() << 7;
}

int64_t Nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1000000000} + now.tv_nsec;
}

// Nanoseconds of one run of independent sums.
template <class Products>
int64_t TimeOf(__m512i pairs) {
  constexpr int kSums = 12, kTurns = 64;
  const auto both = Products::WeightOf(pairs);
  __m512 sums[kSums];
#pragma GCC unroll 12
  for (__m512& sum : sums) sum = _mm512_setzero_ps();
  const int64_t start = Nanoseconds();
  for (int turn = 0; turn < kTurns; ++turn) {
#pragma GCC unroll 12
    for (__m512& sum : sums) {
      sum = Products::Add(sum, both, both);
      asm volatile("" : "+v"(sum));  // each is done
    }
  }
  return Nanoseconds() - start;
}

// The best of some runs in turns: what else the processor does makes them longer, never shorter.
bool FloatsAreFaster() {
  constexpr int kRuns = 16;
  const __m512i pairs = _mm512_set1_epi32(0x3f803f80);
  int64_t instruction = INT64_MAX, floats = INT64_MAX;
  for (int run = 0; run < kRuns; ++run) {
    instruction = Least(instruction, TimeOf<ByInstruction>(pairs));
    floats = Least(floats, TimeOf<ByFloats>(pairs));
  }
  // Making floats of pairs, and a second pass over the sums of quantised weights, take a tenth more.
  return floats * 5 < instruction * 4;
}

}  // namespace

bool FloatsHaveBitsOfPairs() {
  Bits bits;
  for (int trial = 0; trial < 4096; ++trial) {
    alignas(64) uint32_t x[kLanes], w[kLanes], sums[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) {
      x[lane] = RandomPair(bits);
      w[lane] = RandomPair(bits);
      sums[lane] = RandomPair(bits);
    }
    const __m512i activations = _mm512_load_si512(x), weights = _mm512_load_si512(w);
    const __m512 expected =
        ByInstruction::Add(_mm512_load_ps(sums), Pairs(activations), Pairs(weights));
    alignas(64) uint32_t by_floats[kLanes];
    {
      const SubnormalsAreZero subnormals_are_zero;
      const __m512i pairs = _mm512_load_si512(x);
      _mm512_store_ps(by_floats, ByFloats::Add(_mm512_load_ps(sums), ByFloats::WeightOf(pairs),
                                               ByFloats::WeightOf(_mm512_load_si512(w))));
    }
    const __m512i found = _mm512_load_si512(by_floats);
    if (_mm512_cmpneq_epi32_mask(found, _mm512_castps_si512(expected)) != 0) return false;
  }
  return true;
}

PairProducts FastestPairProducts() {
  static const bool by_floats = FloatsHaveBitsOfPairs() && FloatsAreFaster();
  return by_floats ? PairProducts::kFloats : PairProducts::kInstruction;
}

}  // namespace sluice
