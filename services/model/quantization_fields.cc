#include "services/model/quantization_fields.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr char kField[] = "quantization_config";
constexpr char kMethod[] = "sluice";
constexpr char kTypeField[] = "type";
constexpr char kIntegerType[] = "int";
constexpr char kFloatType[] = "float";
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

// Whole numbers, unless `type` says "float".
WeightFormat ReadFormat(JsonFields& fields, int bits) {
  const std::string type = fields.String(kTypeField).value_or(kIntegerType);
  if (type == kFloatType && bits == 8) return WeightFormat::kFp8;
  if (type != kIntegerType) {
    fields.Reject(kTypeField, bits == 8 ? "\"int\", \"float\"" : "\"int\"");
  }
  return bits == 8 ? WeightFormat::kInt8 : WeightFormat::kInt4;
}

// Of the encoding, which INT4 has had two of.
int VersionOf(WeightFormat format) { return format == WeightFormat::kInt4 ? 2 : 1; }

void CheckVersion(JsonFields& fields, WeightFormat format) {
  const int version = VersionOf(format);
  OneOf(fields, "version", {version},
        absl::StrCat(version, ", which `sluice quantize` writes now; quantize the original again"));
}

Quantization ReadOurs(JsonFields& fields) {
  OneOf(fields, "group_size", {static_cast<int>(kWeightGroup)}, absl::StrCat(kWeightGroup));
  const int bits = OneOf(fields, "bits", {8, 4}, "8, 4");
  const WeightFormat format = ReadFormat(fields, bits);
  CheckVersion(fields, format);
  const std::string id = fields.String("checkpoint_id").value_or("");
  if (!IsCheckpointId(id)) {
    fields.Reject("checkpoint_id", absl::StrCat(kIdLength, " hexadecimal digits"));
  }
  return {.format = format, .checkpoint_id = id};
}

constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;

// FP8 in blocks (Qwen, DeepSeek), or with one scale for each matrix.
void CheckFp8(JsonFields& fields) {
  const nlohmann::json* block = fields.Get("weight_block_size");
  if (block != nullptr && *block != nlohmann::json({128, 128})) {
    fields.Reject("weight_block_size", "[128, 128]", kUnimplemented);
  }
  if (fields.String("fmt").value_or("e4m3") != "e4m3") {
    fields.Reject("fmt", "\"e4m3\"", kUnimplemented);
  }
}

// Whether a group of compressed-tensors has FP8 weights whose scales published_fp8.h knows.
bool IsFp8Group(const nlohmann::json& group) {
  if (!group.is_object() || !group.contains("weights")) return false;
  const nlohmann::json& weights = group["weights"];
  if (!weights.is_object()) return false;
  const nlohmann::json bits = weights.value("num_bits", nlohmann::json());
  const nlohmann::json type = weights.value("type", nlohmann::json());
  const nlohmann::json strategy = weights.value("strategy", nlohmann::json());
  return bits == 8 && type == "float" &&
         (strategy == "tensor" || strategy == "channel" || strategy == "block");
}

void CheckCompressedTensors(JsonFields& fields) {
  if (fields.String("format").value_or("") != "float-quantized") {
    return fields.Reject("format", "\"float-quantized\"", kUnimplemented);
  }
  // Rotations of what goes into a matrix.
  const nlohmann::json* transform = fields.Get("transform_config");
  if (transform != nullptr && !transform->empty()) {
    return fields.Reject("transform_config", "none", kUnimplemented);
  }
  const nlohmann::json* groups = fields.Get("config_groups");
  if (groups != nullptr && groups->is_object() && !groups->empty() &&
      std::all_of(groups->begin(), groups->end(), IsFp8Group)) {
    return;
  }
  fields.Reject("config_groups",
                "groups of weights with num_bits 8, type \"float\" and strategy \"tensor\", "
                "\"channel\" or \"block\"",
                kUnimplemented);
}

}  // namespace

std::string CheckpointIdText(uint64_t hash) {
  return absl::StrCat(absl::Hex(hash, absl::kZeroPad16));
}

std::optional<Quantization> ReadQuantization(JsonFields& fields) {
  if (!fields.Has(kField)) return std::nullopt;
  JsonFields inner = fields.Inner(kField);
  const std::string method = inner.String("quant_method").value_or("");
  Quantization quantization{.format = WeightFormat::kFp8, .checkpoint_id = "", .published = true};
  if (method == kMethod) {
    quantization = ReadOurs(inner);
  } else if (method == "fp8") {
    CheckFp8(inner);
  } else if (method == "compressed-tensors") {
    CheckCompressedTensors(inner);
  } else if (method != "fbgemm_fp8") {
    inner.Reject("quant_method",
                 "\"sluice\", which `sluice quantize` writes, \"fp8\", \"fbgemm_fp8\", "
                 "\"compressed-tensors\"; of a model that was quantized otherwise serve the "
                 "original, with --weights int8, int4 or fp8",
                 kUnimplemented);
  }
  fields.Adopt(inner);
  return quantization;
}

nlohmann::json QuantizationFields(const Quantization& quantization,
                                  const std::vector<std::string>& kept) {
  nlohmann::json fields = {{"quant_method", kMethod},
                           {"version", VersionOf(quantization.format)},
                           {"bits", quantization.format == WeightFormat::kInt4 ? 4 : 8},
                           {"group_size", kWeightGroup},
                           {"checkpoint_id", quantization.checkpoint_id},
                           {"modules_to_not_convert", kept}};
  if (quantization.format == WeightFormat::kFp8) fields[kTypeField] = kFloatType;
  return fields;
}

}  // namespace sluice
