#include "services/model/quantization_fields.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr char kField[] = "quantization_config";
constexpr char kMethod[] = "sluice";
constexpr int kVersion = 1;
constexpr size_t kIdLength = 16;

bool IsCheckpointId(const std::string& text) {
  return text.size() == kIdLength && std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return absl::ascii_isxdigit(c) && !absl::ascii_isupper(c);
         });
}

// The integer `name`, which must be one of `accepted`.
int OneOf(JsonFields& fields, const std::string& name, std::initializer_list<int> accepted,
          const std::string& text) {
  const nlohmann::json* value = fields.Get(name);
  for (const int number : accepted) {
    if (value != nullptr && value->is_number_integer() && *value == number) return number;
  }
  fields.Reject(name, text);
  return *accepted.begin();
}

}  // namespace

std::string CheckpointIdText(uint64_t hash) {
  return absl::StrCat(absl::Hex(hash, absl::kZeroPad16));
}

std::optional<Quantization> ReadQuantization(JsonFields& fields) {
  if (!fields.Has(kField)) return std::nullopt;
  JsonFields inner = fields.Inner(kField);
  if (inner.String("quant_method").value_or("") != kMethod) {
    inner.Reject(
        "quant_method",
        "\"sluice\", which `sluice quantize` writes; of a model that others quantized serve "
        "the original, with --weights int8 or int4",
        absl::StatusCode::kUnimplemented);
  }
  OneOf(inner, "version", {kVersion}, absl::StrCat(kVersion));
  OneOf(inner, "group_size", {static_cast<int>(kWeightGroup)}, absl::StrCat(kWeightGroup));
  const int bits = OneOf(inner, "bits", {8, 4}, "8, 4");
  const std::string id = inner.String("checkpoint_id").value_or("");
  if (!IsCheckpointId(id)) {
    inner.Reject("checkpoint_id", absl::StrCat(kIdLength, " hexadecimal digits"));
  }
  fields.Adopt(inner);
  return Quantization{bits == 8 ? WeightFormat::kInt8 : WeightFormat::kInt4, id};
}

nlohmann::json QuantizationFields(const Quantization& quantization,
                                  const std::vector<std::string>& kept) {
  return {{"quant_method", kMethod},
          {"version", kVersion},
          {"bits", quantization.format == WeightFormat::kInt8 ? 8 : 4},
          {"group_size", kWeightGroup},
          {"checkpoint_id", quantization.checkpoint_id},
          {"modules_to_not_convert", kept}};
}

}  // namespace sluice
