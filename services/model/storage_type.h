// In which types a process is asked to keep its weights, and its keys and values: the values of
// --weights and --kv_dtype. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/dtype.h"
#include "kernels/matrix_format.h"

namespace sluice {

// A value of --weights. What a type means for each matrix: weight_rule.h.
struct WeightType {
  // The product that decoder layers compute, whose weights every matrix has where they suit it. None
  // ("auto"): as the file stores them (quantised as they are, BF16 as BF16, F32 and F16 as F32).
  std::optional<MatrixFormat> format;

  // Of decoder layers' products.
  constexpr ActivationFormat activations() const {
    return format.has_value() ? format->activations : ActivationFormat::kOperand;
  }

  constexpr bool operator==(const WeightType&) const = default;

  static const WeightType kAuto, kF32, kBF16, kInt8, kInt4, kFp8, kFp8W8A8;
};
inline constexpr WeightType WeightType::kAuto{};
inline constexpr WeightType WeightType::kF32{WeightFormat::kF32};
inline constexpr WeightType WeightType::kBF16{WeightFormat::kBF16};
inline constexpr WeightType WeightType::kInt8{WeightFormat::kInt8};
inline constexpr WeightType WeightType::kInt4{WeightFormat::kInt4};
inline constexpr WeightType WeightType::kFp8{WeightFormat::kFp8};
inline constexpr WeightType WeightType::kFp8W8A8{
    MatrixFormat{WeightFormat::kFp8, ActivationFormat::kFp8}};

// "auto", the flag of a selectable format, such as "int8", or "fp8-w8a8"; INVALID_ARGUMENT otherwise.
absl::StatusOr<WeightType> ParseWeightType(const std::string& text);

// The name that ParseWeightType reads.
std::string Name(WeightType type);

// WeightFormatTraits::flag: the name of the type that selects a format, or "int6", which none selects.
const char* TypeName(WeightFormat format);

// The quantised formats that a type selects, and their names with these words between two of them and
// before the last one, such as "int8, int4 or fp8".
std::vector<WeightFormat> QuantizedFormats();
std::string QuantizedTypeNames(const std::string& between, const std::string& before_last);

// "f32", "bf16" or "fp8"; INVALID_ARGUMENT otherwise.
absl::StatusOr<DType> ParseKvDType(const std::string& text);

// The type of keys and values where none is asked for: BF16 on GPUs, whose attention over F32
// multiplies three products for one and reads keys element by element; else F32.
constexpr DType DefaultKvDType(bool on_gpu) { return on_gpu ? DType::kBF16 : DType::kF32; }

// The name that ParseKvDType reads. REQUIRES: IsKvType(dtype).
const char* KvDTypeName(DType dtype);

}  // namespace sluice
