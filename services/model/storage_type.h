// In which types a process is asked to keep its weights, and its keys and values: the values of
// --weights and --kv_dtype. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/dtype.h"
#include "kernels/weight_format.h"

namespace sluice {

// kAuto: as the file stores them (quantised as they are, BF16 as BF16, F32 and F16 as F32). What a
// type means for each matrix: weight_rule.h. kFp8W8A8: weights as kFp8, and what projections of
// decoder layers multiply with them is rounded to FP8, too (kernels/fp8_activations.h).
enum class WeightType : uint8_t { kAuto, kF32, kBF16, kInt8, kInt4, kFp8, kFp8W8A8 };

// "auto", "f32", "bf16", "int8", "int4", "fp8" or "fp8-w8a8"; INVALID_ARGUMENT otherwise.
absl::StatusOr<WeightType> ParseWeightType(const std::string& text);

// The name that ParseWeightType reads.
const char* Name(WeightType type);

// The name of the type that asks for a format: "f32", "bf16", "int8", "int4" or "fp8"; or
// "int6", for which none does.
const char* TypeName(WeightFormat format);

// "f32", "bf16" or "fp8"; INVALID_ARGUMENT otherwise.
absl::StatusOr<DType> ParseKvDType(const std::string& text);

// The type of keys and values where none is asked for: BF16 on GPUs, whose attention over F32
// multiplies three products for one and reads keys element by element; else F32.
constexpr DType DefaultKvDType(bool on_gpu) { return on_gpu ? DType::kBF16 : DType::kF32; }

// The name that ParseKvDType reads. REQUIRES: IsKvType(dtype).
const char* KvDTypeName(DType dtype);

}  // namespace sluice
