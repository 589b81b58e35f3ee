// Four-bit floats (E2M1: a sign, two bits of exponent, one of mantissa), two in a byte, the first
// in the lower half.
//
// compressed-tensors "nvfp4-pack-quantized":
//   X.weight_packed        U8 [N, K / 2]
//   X.weight_scale         F8_E4M3 [N, K / 16]
//   X.weight_global_scale  F32 [1], by which scales are divided
// compressed-tensors "mxfp4-pack-quantized" (OCP Microscaling formats 1.0):
//   X.weight_packed        U8 [N, K / 2]
//   X.weight_scale         U8 or F8_E8M0 [N, K / 32]: scale 2^(s - 127); 255 is no number
// gpt-oss (quant_method "mxfp4"): all experts of a layer together, X a tensor's own name:
//   X_blocks               U8 [E, N, K / 32, 16]
//   X_scales               U8 or F8_E8M0 [E, N, K / 32]
#pragma once

#include <memory>
#include <string>

#include "services/model/published/published_matrix.h"

namespace sluice {

inline constexpr int64_t kNvFp4Group = 16;
inline constexpr int64_t kMxFp4Group = 32;

// Behind the name of a stack of experts.
inline constexpr char kFp4BlocksSuffix[] = "_blocks";
inline constexpr char kFp4ScalesSuffix[] = "_scales";

// The numbers of `count` codes, an even number of them, times a scale.
void DecodeFp4(const std::byte* codes, int64_t count, float scale, float* out);

// As PublishedMatrix::Open; `stem` is the name without ".weight".
absl::StatusOr<std::unique_ptr<PublishedMatrix>> OpenNvFp4(const PackedFiles& files,
                                                           const std::string& stem, int64_t rows,
                                                           int64_t columns);
absl::StatusOr<std::unique_ptr<PublishedMatrix>> OpenMxFp4(const PackedFiles& files,
                                                           const std::string& stem, int64_t rows,
                                                           int64_t columns);
// `rows` are those of all `matrices`.
absl::StatusOr<std::unique_ptr<PublishedMatrix>> OpenMxFp4Stack(const PackedFiles& files,
                                                                const std::string& name,
                                                                int64_t rows, int64_t columns,
                                                                int64_t matrices);

}  // namespace sluice
