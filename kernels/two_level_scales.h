// The scales of the formats INT4_K and INT6_K, which hold what blocks of Q4_K, Q5_K and Q6_K of GGUF
// files hold. A group has two F16 numbers d and e, and each 32 of its inputs a byte m, in [0, 255],
// and one (INT4_K) or two (INT6_K, for 16 inputs each) bytes s, in [-128, 127]. A weight is
// d * s * q - e * m. d * s * q and e * m are floats without rounding.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/dtype.h"
#include "kernels/weight_format.h"

namespace sluice {

// Where these lie in a group: d, e, then for each 32 inputs s and m. The codes follow, those of each
// 32 inputs in a piece.
template <WeightFormat kFormat>
struct TwoLevelLayout {
  static_assert(HasTwoLevelScales(kFormat));
  static constexpr int kBits = TraitsOf(kFormat).bits;
  static constexpr int64_t kParts = TraitsOf(kFormat).group / kWeightGroup;
  static constexpr int64_t kRunsOfPart = kBits == 4 ? 1 : 2;  // inputs that share an s
  static constexpr int64_t kRun = kWeightGroup / kRunsOfPart;
  static constexpr int64_t kRuns = kParts * kRunsOfPart;
  static constexpr int64_t kPartBytes = kRunsOfPart + 1;
  static constexpr int64_t kHeaderBytes = 4 + kParts * kPartBytes;
  static constexpr int64_t kCodeBytes = kWeightGroup * kBits / 8;  // of 32 inputs
  static constexpr int kLeast = kBits == 4 ? 0 : -32;              // of q
  static constexpr int kMost = kBits == 4 ? 15 : 31;
  static_assert(kHeaderBytes + kParts * kCodeBytes == TraitsOf(kFormat).group_bytes);
};

// The products of both levels.
template <WeightFormat kFormat>
struct TwoLevelScales {
  using Layout = TwoLevelLayout<kFormat>;
  float scales[Layout::kRuns];     // d * s
  float minimums[Layout::kParts];  // e * m

  explicit TwoLevelScales(const std::byte* group) {
    uint16_t levels[2];
    std::memcpy(levels, group, sizeof(levels));
    const float d = FloatFromHalf(levels[0]), e = FloatFromHalf(levels[1]);
    const std::byte* part = group + sizeof(levels);
    for (int64_t p = 0; p < Layout::kParts; ++p, part += Layout::kPartBytes) {
      for (int64_t r = 0; r < Layout::kRunsOfPart; ++r) {
        scales[p * Layout::kRunsOfPart + r] = d * static_cast<float>(static_cast<int8_t>(part[r]));
      }
      minimums[p] = e * static_cast<float>(static_cast<uint8_t>(part[Layout::kRunsOfPart]));
    }
  }
};

}  // namespace sluice
