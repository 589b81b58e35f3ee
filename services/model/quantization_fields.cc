#include "services/model/quantization_fields.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/model/published_fields.h"
#include "services/model/storage_type.h"

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
int OneOf(JsonFields& fields, const std::string& name, const std::vector<int>& accepted,
          const std::string& text) {
  const nlohmann::json* value = fields.Get(name);
  for (const int number : accepted) {
    if (value != nullptr && value->is_number_integer() && *value == number) return number;
  }
  fields.Reject(name, text);
  return accepted.front();
}
int OneOf(JsonFields& fields, const std::string& name, const std::vector<int>& accepted) {
  return OneOf(fields, name, accepted, absl::StrJoin(accepted, ", "));
}

// The fields by which a format of `sluice quantize` is known.
struct FormatFields {
  int group_size;
  int bits;
  std::string type;

  bool operator==(const FormatFields&) const = default;
};
FormatFields FieldsOf(WeightFormat format) {
  const WeightFormatTraits& traits = TraitsOf(format);
  return {.group_size = static_cast<int>(traits.group),
          .bits = traits.bits,
          .type = traits.codes == WeightCodes::kFp8 ? kFloatType : kIntegerType};
}

// The different values of a field among those formats that `is_one` accepts.
template <class Value, class IsOne>
std::vector<Value> ValuesOf(Value FormatFields::*field, const IsOne& is_one) {
  std::vector<Value> values;
  for (const WeightFormat format : QuantizedFormats()) {
    const FormatFields of = FieldsOf(format);
    const bool is_known = std::find(values.begin(), values.end(), of.*field) != values.end();
    if (is_one(of) && !is_known) values.push_back(of.*field);
  }
  return values;
}

// Whole numbers, unless `type` says "float".
WeightFormat ReadFormat(JsonFields& fields) {
  const auto any = [](const FormatFields&) { return true; };
  FormatFields read;
  read.group_size = OneOf(fields, "group_size", ValuesOf(&FormatFields::group_size, any));
  const auto in_groups = [&](const FormatFields& of) { return of.group_size == read.group_size; };
  read.bits = OneOf(fields, "bits", ValuesOf(&FormatFields::bits, in_groups));
  read.type = fields.String(kTypeField).value_or(kIntegerType);
  for (const WeightFormat format : QuantizedFormats()) {
    if (FieldsOf(format) == read) return format;
  }
  const auto with_bits = [&](const FormatFields& of) {
    return in_groups(of) && of.bits == read.bits;
  };
  const auto types = ValuesOf(&FormatFields::type, with_bits);
  fields.Reject(kTypeField, absl::StrCat("\"", absl::StrJoin(types, "\", \""), "\""));
  return QuantizedFormats().front();
}

void CheckVersion(JsonFields& fields, WeightFormat format) {
  const int version = TraitsOf(format).version;
  OneOf(fields, "version", {version},
        absl::StrCat(version, ", which `sluice quantize` writes now; quantize the original again"));
}

Quantization ReadOurs(JsonFields& fields) {
  const WeightFormat format = ReadFormat(fields);
  CheckVersion(fields, format);
  const std::string id = fields.String("checkpoint_id").value_or("");
  if (!IsCheckpointId(id)) {
    fields.Reject("checkpoint_id", absl::StrCat(kIdLength, " hexadecimal digits"));
  }
  Quantization quantization;
  quantization.format = format;
  quantization.checkpoint_id = id;
  return quantization;
}

}  // namespace

std::string CheckpointIdText(uint64_t hash) {
  return absl::StrCat(absl::Hex(hash, absl::kZeroPad16));
}

std::optional<Quantization> ReadQuantization(JsonFields& fields) {
  if (!fields.Has(kField)) return std::nullopt;
  JsonFields inner = fields.Inner(kField);
  const std::string method = inner.String("quant_method").value_or("");
  Quantization quantization;
  if (method == kMethod) {
    quantization = ReadOurs(inner);
  } else {
    quantization.published = true;
    quantization.scheme = ReadPublishedScheme(inner, method);
    quantization.format = NativeFormatOf(quantization.scheme);
  }
  fields.Adopt(inner);
  return quantization;
}

nlohmann::json QuantizationFields(const Quantization& quantization,
                                  const std::vector<std::string>& kept) {
  const FormatFields of = FieldsOf(quantization.format);
  nlohmann::json fields = {{"quant_method", kMethod},
                           {"version", TraitsOf(quantization.format).version},
                           {"bits", of.bits},
                           {"group_size", of.group_size},
                           {"checkpoint_id", quantization.checkpoint_id},
                           {"modules_to_not_convert", kept}};
  if (of.type != kIntegerType) fields[kTypeField] = of.type;
  return fields;
}

}  // namespace sluice
