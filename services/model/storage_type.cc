#include "services/model/storage_type.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/check.h"
#include "kernels/kv_format.h"

namespace sluice {
namespace {

// The name of what is selected by a format with activations in FP8: both sides have eight bits.
constexpr char kFp8ActivationsSuffix[] = "-w8a8";

// Every value of --weights, in the order in which errors list them.
std::vector<WeightType> WeightTypes() {
  std::vector<WeightType> types = {WeightType::kAuto};
  for (const MatrixFormat& format : MatrixFormats()) {
    if (TraitsOf(format.weights).is_selectable) types.push_back({format});
  }
  return types;
}

constexpr DType kKvDTypes[] = {DType::kF32, DType::kBF16, DType::kF8E4M3};

}  // namespace

absl::StatusOr<WeightType> ParseWeightType(const std::string& text) {
  std::vector<std::string> names;
  for (const WeightType& type : WeightTypes()) {
    names.push_back(Name(type));
    if (text == names.back()) return type;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("weight type \"", text, "\"; accepted: ", absl::StrJoin(names, ", ")));
}

std::string Name(WeightType type) {
  if (!type.format.has_value()) return "auto";
  const bool rounds = type.activations() == ActivationFormat::kFp8;
  return absl::StrCat(TypeName(type.format->weights), rounds ? kFp8ActivationsSuffix : "");
}

const char* TypeName(WeightFormat format) { return TraitsOf(format).flag; }

std::vector<WeightFormat> QuantizedFormats() {
  std::vector<WeightFormat> formats;
  for (const WeightFormatTraits& traits : kWeightFormats) {
    if (traits.is_selectable && IsQuantized(traits.format)) formats.push_back(traits.format);
  }
  return formats;
}

std::string QuantizedTypeNames(const std::string& between, const std::string& before_last) {
  const std::vector<WeightFormat> formats = QuantizedFormats();
  std::string names = TypeName(formats.front());
  for (size_t i = 1; i < formats.size(); ++i) {
    absl::StrAppend(&names, i + 1 == formats.size() ? before_last : between, TypeName(formats[i]));
  }
  return names;
}

absl::StatusOr<DType> ParseKvDType(const std::string& text) {
  for (const DType dtype : kKvDTypes) {
    if (text == KvDTypeName(dtype)) return dtype;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("type of keys and values \"", text, "\"; accepted: f32, bf16, fp8"));
}

const char* KvDTypeName(DType dtype) {
  SLUICE_CHECK(IsKvType(dtype));
  return dtype == DType::kF32 ? "f32" : dtype == DType::kBF16 ? "bf16" : "fp8";
}

}  // namespace sluice
