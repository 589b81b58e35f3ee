// How Hopper's tensor cores add up the products of one instruction and the sum before them, as
// published models have it that agree with H100s bit for bit (MMA-Sim, arXiv 2511.10909; Khattak and
// Mikaitis, arXiv 2512.07004): all terms are aligned to the largest exponent, cut off behind a fixed
// number of fraction bits, added exactly, and the sum is cut off to the bits that a sum has. The
// instruction's width does not matter: each sum is of its own row and column. Pure functions.
#pragma once

namespace sluice::cuda::emulator {

// What is kept, by the type of the numbers that are multiplied.
struct TensorPrecision {
  int least_exponent;  // of the least normal number
  int term_bits;       // of the fraction of each term, at the largest exponent
  int sum_bits;        // of the fraction of a sum
};
inline constexpr TensorPrecision kBFloat16Precision = {-126, 25, 23};
inline constexpr TensorPrecision kE4M3Precision = {-6, 13, 13};

// c + the sum of a[k] * b[k] over k < count. Where a term is no finite number, as F64 adds them.
float TensorSum(const float* a, const float* b, int count, float c,
                const TensorPrecision& precision);

}  // namespace sluice::cuda::emulator
