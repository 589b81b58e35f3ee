// Weights of a tile image as fragments of A: each lane loads what it has of a group at once. After simt.h.
#pragma once

#include "kernels/cuda/kernels/fp8_codes.h"
#include "kernels/cuda/tile_image.h"

namespace sluice::cuda::SIMT_NAMESPACE {

// A register's pair of INT8 weights, bytes 0 and 2 of a word, as BF16. In BF16, 128 + m has the bits
// 0x4300 + m for m below 128, and 256 has 0x4380: a number is 128 and its low bits, minus 128 or,
// where it is negative, 256.
SIMT_DEVICE uint32_t PairFromInt8(uint32_t word) {
  return SubtractBFloat16((word & 0x007f007fu) | 0x43004300u, (word & 0x00800080u) | 0x43004300u);
}
// The same of INT4, the lowest bits of both halves: q + 8 is 128 + q minus 136.
SIMT_DEVICE uint32_t PairFromInt4(uint32_t word) {
  return SubtractBFloat16((word & 0x000f000fu) | 0x43004300u, 0x43084308u);
}

// What the sum of output `row` of a unit over a group is multiplied with.
template <ImageFormat kFormat>
SIMT_DEVICE float GroupScale(const char* unit, int row, int group) {
  return Widened(*reinterpret_cast<const uint16_t*>(unit + ScaleOffset(kFormat, row, group)));
}

// The factors of the FP8 weights of output `row` of a unit in a group, as packing has left them.
SIMT_DEVICE uint32_t Fp8Factors(const char* unit, int row, int group) {
  constexpr ImageFormat kFormat = ImageFormat::kFp8;
  return Twice(*reinterpret_cast<const uint16_t*>(unit + ScaleOffset(kFormat, row, group)));
}

// A lane's weights of group `group` of a unit in shared memory, by fragment.
template <ImageFormat kFormat>
SIMT_DEVICE void LoadGroup(const char* unit, int group, int lane,
                           uint32_t (&a)[kGroupFragments][4]) {
  if constexpr (IsPlain(kFormat)) {
    const auto* const words = reinterpret_cast<const Words*>(unit) + lane;
    SIMT_UNROLL
    for (int i = 0; i < kGroupFragments; ++i) {
      const Words fragment = words[(group * kGroupFragments + i) * kWarpSize];
      SIMT_UNROLL
      for (int j = 0; j < 4; ++j) a[i][j] = fragment.word[j];
    }
  } else if constexpr (kFormat == ImageFormat::kInt8) {
    const Words words = reinterpret_cast<const Words*>(unit)[group * kWarpSize + lane];
    SIMT_UNROLL
    for (int i = 0; i < kGroupFragments; ++i) {
      a[i][0] = PairFromInt8(words.word[i * 2]);
      a[i][1] = PairFromInt8(words.word[i * 2] >> 8);
      a[i][2] = PairFromInt8(words.word[i * 2 + 1]);
      a[i][3] = PairFromInt8(words.word[i * 2 + 1] >> 8);
    }
  } else if constexpr (kFormat == ImageFormat::kFp8) {
    const Words words = reinterpret_cast<const Words*>(unit)[group * kWarpSize + lane];
    const uint32_t low = Fp8Factors(unit, lane / 4, group);
    const uint32_t high = Fp8Factors(unit, lane / 4 + 8, group);
    SIMT_UNROLL
    for (int i = 0; i < kGroupFragments; ++i) {
      a[i][0] = PairFromFp8(words.word[i * 2] << 8, low);
      a[i][1] = PairFromFp8(words.word[i * 2], high);
      a[i][2] = PairFromFp8(words.word[i * 2 + 1] << 8, low);
      a[i][3] = PairFromFp8(words.word[i * 2 + 1], high);
    }
  } else {
    const WordPair words = reinterpret_cast<const WordPair*>(unit)[group * kWarpSize + lane];
    SIMT_UNROLL
    for (int i = 0; i < kGroupFragments; ++i) {
      a[i][0] = PairFromInt4(words.word[i]);
      a[i][2] = PairFromInt4(words.word[i] >> 4);
      a[i][1] = PairFromInt4(words.word[i] >> 8);
      a[i][3] = PairFromInt4(words.word[i] >> 12);
    }
  }
}

}  // namespace sluice::cuda::SIMT_NAMESPACE
