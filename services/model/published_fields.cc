#include "services/model/published_fields.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "services/model/published/fp4.h"
#include "services/model/storage_type.h"

namespace sluice {
namespace {

constexpr auto kNotRead = absl::StatusCode::kUnimplemented;
constexpr int kMostBlockSide = 1 << 16;

int OneOfBits(JsonFields& fields, const std::string& name, const std::vector<int>& accepted) {
  const nlohmann::json* value = fields.Get(name);
  for (const int bits : accepted) {
    if (value != nullptr && value->is_number_integer() && *value == bits) return bits;
  }
  fields.Reject(name, absl::StrJoin(accepted, ", "), kNotRead);
  return accepted.front();
}

// 0 for all inputs of an output, which files call -1.
int64_t ReadGroupSize(JsonFields& fields, const nlohmann::json* value) {
  const std::vector<int> accepted = {16, 32, 64, 128, 256, 512, 1024};
  if (value != nullptr && value->is_number_integer()) {
    if (*value == -1) return 0;
    for (const int size : accepted) {
      if (*value == size) return size;
    }
  }
  fields.Reject("group_size", absl::StrCat("-1, ", absl::StrJoin(accepted, ", ")), kNotRead);
  return 0;
}

// A list of modules that stay as they are. Which do, the files tell.
void CheckModules(JsonFields& fields, const std::string& name) {
  const nlohmann::json* value = fields.Get(name);
  if (value == nullptr) return;
  const bool is_list = value->is_array() &&
                       std::all_of(value->begin(), value->end(),
                                   [](const nlohmann::json& module) { return module.is_string(); });
  if (!is_list) fields.Reject(name, "a list of names of modules");
}

// An object that must say nothing.
void CheckEmpty(JsonFields& fields, const std::string& name, const std::string& accepted) {
  const nlohmann::json* value = fields.Get(name);
  if (value != nullptr && !value->empty()) fields.Reject(name, accepted, kNotRead);
}

// A flag that must have a value, if it is there.
void CheckFlag(JsonFields& fields, const std::string& name, bool accepted) {
  if (fields.Bool(name).value_or(accepted) == accepted) return;
  fields.Reject(name, accepted ? "true" : "false", kNotRead);
}

void CheckText(JsonFields& fields, const std::string& name, const std::vector<std::string>& texts) {
  if (!fields.Has(name)) return;
  const std::string text = absl::AsciiStrToLower(fields.String(name).value_or(""));
  if (std::find(texts.begin(), texts.end(), text) != texts.end()) return;
  fields.Reject(name, absl::StrCat("\"", absl::StrJoin(texts, "\", \""), "\""), kNotRead);
}

PublishedScheme ReadAwq(JsonFields& fields) {
  CheckText(fields, "version", {"gemm"});
  CheckFlag(fields, "zero_point", true);
  CheckModules(fields, "modules_to_not_convert");
  return {.layout = PublishedLayout::kAwq,
          .bits = OneOfBits(fields, "bits", {4}),
          .group_size = ReadGroupSize(fields, fields.Get("group_size")),
          .symmetric = false};
}

PublishedScheme ReadGptq(JsonFields& fields) {
  CheckText(fields, "checkpoint_format", {"gptq", "gptq_v2"});
  CheckText(fields, "pack_dtype", {"int32"});
  CheckFlag(fields, "is_marlin_format", false);
  CheckEmpty(fields, "dynamic", "the same for all layers");
  CheckModules(fields, "modules_to_not_convert");
  const bool second = fields.String("checkpoint_format").value_or("gptq") == "gptq_v2";
  PublishedScheme scheme{.layout = PublishedLayout::kGptq,
                         .bits = OneOfBits(fields, "bits", {2, 3, 4, 8}),
                         .group_size = ReadGroupSize(fields, fields.Get("group_size")),
                         .symmetric = fields.Bool("sym").value_or(true),
                         .zero_offset = second ? 0 : 1};
  // A single group is in any order.
  scheme.is_ordered = fields.Bool("desc_act").value_or(false) && scheme.group_size != 0;
  return scheme;
}

PublishedScheme ReadBitsAndBytes(JsonFields& fields) {
  if (!fields.Bool("load_in_4bit").value_or(false)) fields.Reject("load_in_4bit", "true", kNotRead);
  CheckFlag(fields, "load_in_8bit", false);
  CheckText(fields, "bnb_4bit_quant_type", {"nf4", "fp4"});
  CheckText(fields, "bnb_4bit_quant_storage", {"uint8"});
  CheckModules(fields, "llm_int8_skip_modules");
  return {.layout = PublishedLayout::kBitsAndBytes, .bits = 4};
}

// Experts of gpt-oss.
PublishedScheme ReadMxFp4(JsonFields& fields) {
  CheckModules(fields, "modules_to_not_convert");
  return {.layout = PublishedLayout::kMxFp4, .bits = 4, .group_size = kMxFp4Group};
}

// Sizes of FP8 blocks, [outputs, inputs] or "outputs x inputs".
void ReadBlock(JsonFields& fields, const std::string& name, const nlohmann::json* value,
               PublishedScheme& scheme) {
  if (value == nullptr) return;
  std::vector<int64_t> sides;
  if (value->is_string()) {
    for (const auto& part : absl::StrSplit(value->get<std::string>(), 'x')) {
      int64_t side = 0;
      sides.push_back(absl::SimpleAtoi(part, &side) ? side : 0);
    }
  } else if (value->is_array()) {
    for (const nlohmann::json& side : *value) {
      sides.push_back(side.is_number_integer() ? side.get<int64_t>() : 0);
    }
  }
  const bool are_sides = sides.size() == 2 &&
                         std::all_of(sides.begin(), sides.end(),
                                     [](auto side) { return side >= 1 && side <= kMostBlockSide; });
  if (!are_sides) return fields.Reject(name, "two numbers of outputs and inputs", kNotRead);
  scheme.block_rows = sides[0];
  scheme.block_columns = sides[1];
}

// FP8 in blocks (Qwen, DeepSeek), or with one scale for each matrix.
PublishedScheme ReadFp8(JsonFields& fields) {
  PublishedScheme scheme{.layout = PublishedLayout::kFp8};
  ReadBlock(fields, "weight_block_size", fields.Get("weight_block_size"), scheme);
  CheckText(fields, "fmt", {"e4m3"});
  CheckModules(fields, "modules_to_not_convert");
  CheckModules(fields, "ignored_layers");
  return scheme;
}

// ---- compressed-tensors ----

// What a group of layers says of its weights; null where it says nothing.
const nlohmann::json* WeightsOf(const nlohmann::json& group) {
  if (!group.is_object()) return nullptr;
  const auto weights = group.find("weights");
  return weights == group.end() || !weights->is_object() ? nullptr : &*weights;
}

// The weights of all groups, which have to be the same; null, and rejected, where they are not.
const nlohmann::json* TheWeights(JsonFields& fields) {
  const nlohmann::json* groups = fields.Get("config_groups");
  const bool any = groups != nullptr && groups->is_object() && !groups->empty();
  const nlohmann::json* first = any ? WeightsOf(*groups->begin()) : nullptr;
  const bool same = first != nullptr &&
                    std::all_of(groups->begin(), groups->end(), [&](const nlohmann::json& group) {
                      const nlohmann::json* weights = WeightsOf(group);
                      return weights != nullptr && *weights == *first;
                    });
  if (same) return first;
  fields.Reject("config_groups", "groups whose weights are all quantized alike", kNotRead);
  return nullptr;
}

// A format of compressed-tensors, and what it accepts.
struct CompressedFormat {
  const char* name;
  PublishedLayout layout;
  const char* type;
  std::vector<int> bits;
  std::vector<std::string> strategies;
};

std::vector<CompressedFormat> CompressedFormats() {
  using enum PublishedLayout;
  return {{"pack-quantized", kPackedInt, "int", {4, 8}, {"group", "channel"}},
          {"int-quantized", kPlainInt, "int", {8}, {"tensor", "channel", "group"}},
          {"float-quantized", kFp8, "float", {8}, {"tensor", "channel", "block"}},
          {"naive-quantized", kFp8, "float", {8}, {"tensor", "channel", "block"}},
          {"nvfp4-pack-quantized", kNvFp4, "float", {4}, {"tensor_group"}},
          {"mxfp4-pack-quantized", kMxFp4, "float", {4}, {"group"}}};
}

// The scheme of weights in a format, whose own fields are checked.
PublishedScheme ReadWeights(JsonFields& weights, const CompressedFormat& format) {
  PublishedScheme scheme{.layout = format.layout};
  scheme.bits = OneOfBits(weights, "num_bits", format.bits);
  CheckText(weights, "type", {format.type});
  CheckText(weights, "strategy", format.strategies);
  const std::string strategy = weights.String("strategy").value_or("");
  if (strategy.empty()) {
    weights.Reject("strategy", absl::StrJoin(format.strategies, ", "), kNotRead);
  }
  scheme.symmetric = weights.Bool("symmetric").value_or(true);
  if (format.layout == PublishedLayout::kNvFp4 || format.layout == PublishedLayout::kMxFp4) {
    const int64_t size = format.layout == PublishedLayout::kNvFp4 ? kNvFp4Group : kMxFp4Group;
    const nlohmann::json* given = weights.Get("group_size");
    if (given != nullptr && *given != size) {
      weights.Reject("group_size", absl::StrCat(size), kNotRead);
    }
    scheme.group_size = size;
  } else if (strategy == "group") {
    scheme.group_size = ReadGroupSize(weights, weights.Get("group_size"));
  } else if (strategy == "block") {
    ReadBlock(weights, "block_structure", weights.Get("block_structure"), scheme);
  }
  const nlohmann::json* order = weights.Get("actorder");
  const bool is_weight = order != nullptr && (*order == "weight" || *order == "static");
  if (order != nullptr && !is_weight && *order != "group" && *order != "dynamic" &&
      *order != false) {
    weights.Reject("actorder", "\"weight\", \"group\"", kNotRead);
  }
  scheme.is_ordered = order != nullptr && !is_weight && *order != false && scheme.group_size != 0;
  return scheme;
}

PublishedScheme ReadCompressedTensors(JsonFields& fields) {
  // Rotations of what goes into a matrix.
  CheckEmpty(fields, "transform_config", "none");
  CheckModules(fields, "ignore");
  if (const nlohmann::json* sparsity = fields.Get("sparsity_config");
      sparsity != nullptr && !sparsity->empty() &&
      (!sparsity->is_object() || sparsity->value("format", nlohmann::json()) != "dense")) {
    fields.Reject("sparsity_config", "none, or of format \"dense\"", kNotRead);
  }
  const std::string name = fields.String("format").value_or("");
  const nlohmann::json* weights = TheWeights(fields);
  if (weights == nullptr) return {};
  const bool of_integers =
      name == "naive-quantized" && weights->value("type", nlohmann::json()) == "int";
  const std::string as = of_integers ? "int-quantized" : name;
  std::vector<std::string> names;
  for (const CompressedFormat& format : CompressedFormats()) {
    names.push_back(format.name);
    if (as != format.name) continue;
    JsonFields inner("config_groups", *weights, "weights.");
    const PublishedScheme scheme = ReadWeights(inner, format);
    if (!inner.status().ok()) {
      fields.Fail(absl::StrCat("quantization_config.", std::string(inner.status().message())),
                  inner.status().code());
    }
    return scheme;
  }
  fields.Reject("format", absl::StrCat("\"", absl::StrJoin(names, "\", \""), "\""), kNotRead);
  return {};
}

}  // namespace

PublishedScheme ReadPublishedScheme(JsonFields& fields, const std::string& method) {
  if (method == "fp8") return ReadFp8(fields);
  if (method == "fbgemm_fp8") return {};
  if (method == "awq") return ReadAwq(fields);
  if (method == "gptq") return ReadGptq(fields);
  if (method == "bitsandbytes") return ReadBitsAndBytes(fields);
  if (method == "mxfp4") return ReadMxFp4(fields);
  if (method == "compressed-tensors") return ReadCompressedTensors(fields);
  fields.Reject(
      "quant_method",
      absl::StrCat("\"sluice\", which `sluice quantize` writes, \"fp8\", \"fbgemm_fp8\", "
                   "\"awq\", \"gptq\", \"bitsandbytes\", \"compressed-tensors\", "
                   "\"mxfp4\"; of a model that was quantized otherwise serve the original, with "
                   "--weights ",
                   QuantizedTypeNames(", ", " or ")),
      kNotRead);
  return {};
}

WeightFormat NativeFormatOf(const PublishedScheme& scheme, bool in_order) {
  using enum PublishedLayout;
  const bool is_narrow = scheme.bits <= 4;
  switch (scheme.layout) {
    case kFp8:
      return scheme.block_columns % kWeightGroup == 0 ? WeightFormat::kFp8 : WeightFormat::kF32;
    case kMxFp4:
      return WeightFormat::kMxFp4;
    case kNvFp4:
    case kBitsAndBytes:
    case kGguf:
      return WeightFormat::kF32;
    default:
      break;
  }
  if (scheme.is_ordered && !in_order) return WeightFormat::kF32;
  if (scheme.group_size % 128 == 0) {
    return is_narrow ? WeightFormat::kInt4ZpG128 : WeightFormat::kInt8ZpG128;
  }
  if (scheme.group_size % kWeightGroup != 0) return WeightFormat::kF32;
  return is_narrow ? WeightFormat::kInt4Zp : WeightFormat::kInt8Zp;
}

}  // namespace sluice
