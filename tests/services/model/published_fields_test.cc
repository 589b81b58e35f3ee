#include "services/model/published_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "services/model/model_config.h"
#include "services/model/weight_rule.h"
#include "tests/services/model/quantize_fixture.h"

namespace sluice::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using enum WeightFormat;

absl::StatusOr<ModelConfig> ParsedWith(const json& quantization) {
  json config = LlamaConfig();
  config["quantization_config"] = quantization;
  return ParseModelConfig(config.dump(), "", "test");
}

WeightFormat FormatWith(const json& quantization) {
  const auto config = ParsedWith(quantization);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? config->quantization->format : kBF16;
}

void ExpectRefused(const json& quantization, const std::string& text,
                   absl::StatusCode code = absl::StatusCode::kUnimplemented) {
  const absl::Status status = ParsedWith(quantization).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

json Awq() {
  return {{"quant_method", "awq"}, {"bits", 4},         {"group_size", 128},
          {"zero_point", true},    {"version", "GEMM"}, {"modules_to_not_convert", nullptr}};
}

json Gptq() {
  return {{"quant_method", "gptq"}, {"bits", 4},   {"group_size", 128},
          {"desc_act", false},      {"sym", true}, {"checkpoint_format", "gptq"}};
}

json FieldsWith(json object, const std::string& field, const json& value) {
  object[field] = value;
  return object;
}

json Compressed(const std::string& format, const json& weights) {
  return {{"quant_method", "compressed-tensors"},
          {"format", format},
          {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}},
          {"ignore", {"lm_head"}}};
}

json Int4Weights() {
  return {{"num_bits", 4},     {"type", "int"},     {"strategy", "group"},
          {"group_size", 128}, {"symmetric", true}, {"actorder", nullptr}};
}

TEST(PublishedFields, AwqIsKeptInItsGroups) {
  EXPECT_EQ(FormatWith(Awq()), kInt4ZpG128);
  EXPECT_EQ(FormatWith(FieldsWith(Awq(), "group_size", 64)), kInt4Zp);
  EXPECT_EQ(FormatWith(FieldsWith(Awq(), "group_size", 32)), kInt4Zp);
  EXPECT_EQ(FormatWith(FieldsWith(Awq(), "group_size", 16)), kF32);
  EXPECT_EQ(FormatWith(FieldsWith(Awq(), "group_size", -1)), kInt4ZpG128);
}

TEST(PublishedFields, WhatAwqIsNotReadIsRefused) {
  ExpectRefused(FieldsWith(Awq(), "bits", 8), "quantization_config.bits is 8; accepted: 4");
  ExpectRefused(FieldsWith(Awq(), "version", "gemv"), "version is \"gemv\"; accepted: \"gemm\"");
  ExpectRefused(FieldsWith(Awq(), "zero_point", false), "zero_point is false; accepted: true");
  ExpectRefused(FieldsWith(Awq(), "group_size", 100),
                "group_size is 100; accepted: -1, 16, 32, 64, 128");
  ExpectRefused(FieldsWith(Awq(), "modules_to_not_convert", {1, 2}),
                "modules_to_not_convert is [1,2]; accepted: a list of names of modules",
                absl::StatusCode::kInvalidArgument);
}

TEST(PublishedFields, GptqIsKeptByBitsGroupsAndOrder) {
  EXPECT_EQ(FormatWith(Gptq()), kInt4ZpG128);
  EXPECT_EQ(FormatWith(FieldsWith(Gptq(), "bits", 2)), kInt4ZpG128);
  EXPECT_EQ(FormatWith(FieldsWith(Gptq(), "bits", 3)), kInt4ZpG128);
  EXPECT_EQ(FormatWith(FieldsWith(Gptq(), "bits", 8)), kInt8ZpG128);
  EXPECT_EQ(FormatWith(FieldsWith(Gptq(), "desc_act", true)), kF32);
  EXPECT_EQ(FormatWith(FieldsWith(FieldsWith(Gptq(), "desc_act", true), "group_size", -1)),
            kInt4ZpG128);
  EXPECT_EQ(ParsedWith(Gptq())->quantization->scheme.zero_offset, 1);
  EXPECT_EQ(ParsedWith(FieldsWith(Gptq(), "checkpoint_format", "gptq_v2"))
                ->quantization->scheme.zero_offset,
            0);
}

TEST(PublishedFields, WhatGptqIsNotReadIsRefused) {
  ExpectRefused(FieldsWith(Gptq(), "bits", 5), "bits is 5; accepted: 2, 3, 4, 8");
  ExpectRefused(FieldsWith(Gptq(), "checkpoint_format", "marlin"),
                "checkpoint_format is \"marlin\"; accepted: \"gptq\", \"gptq_v2\"");
  ExpectRefused(FieldsWith(Gptq(), "dynamic", {{"-:.*down.*", json::object()}}), "dynamic is {");
}

TEST(PublishedFields, CompressedTensorsAreKeptByTheirFormat) {
  EXPECT_EQ(FormatWith(Compressed("pack-quantized", Int4Weights())), kInt4ZpG128);
  const json channels = {{"num_bits", 8}, {"type", "int"}, {"strategy", "channel"}};
  EXPECT_EQ(FormatWith(Compressed("pack-quantized", channels)), kInt8ZpG128);
  EXPECT_EQ(FormatWith(Compressed("int-quantized", channels)), kInt8ZpG128);
  EXPECT_EQ(FormatWith(Compressed("naive-quantized", channels)), kInt8ZpG128);
  const json fp4 = {
      {"num_bits", 4}, {"type", "float"}, {"strategy", "tensor_group"}, {"group_size", 16}};
  EXPECT_EQ(FormatWith(Compressed("nvfp4-pack-quantized", fp4)), kF32);
  const json mx = {{"num_bits", 4}, {"type", "float"}, {"strategy", "group"}, {"group_size", 32}};
  EXPECT_EQ(FormatWith(Compressed("mxfp4-pack-quantized", mx)), kMxFp4);
  EXPECT_EQ(
      FormatWith(Compressed("pack-quantized", FieldsWith(Int4Weights(), "actorder", "group"))),
      kF32);
  EXPECT_EQ(
      FormatWith(Compressed("pack-quantized", FieldsWith(Int4Weights(), "actorder", "weight"))),
      kInt4ZpG128);
}

TEST(PublishedFields, WhatCompressedTensorsAreNotReadIsRefused) {
  ExpectRefused(Compressed("marlin-24", Int4Weights()),
                "format is \"marlin-24\"; accepted: \"pack-q");
  ExpectRefused(Compressed("pack-quantized", FieldsWith(Int4Weights(), "num_bits", 3)),
                "weights.num_bits is 3; accepted: 4, 8");
  ExpectRefused(Compressed("pack-quantized", FieldsWith(Int4Weights(), "strategy", "token")),
                "weights.strategy is \"token\"; accepted: \"group\", \"channel\"");
  ExpectRefused(Compressed("pack-quantized", FieldsWith(Int4Weights(), "actorder", "random")),
                "weights.actorder is \"random\"");
  json mixed = Compressed("pack-quantized", Int4Weights());
  mixed["config_groups"]["group_1"]["weights"] = FieldsWith(Int4Weights(), "num_bits", 8);
  ExpectRefused(mixed, "accepted: groups whose weights are all quantized alike");
  ExpectRefused(FieldsWith(Compressed("pack-quantized", Int4Weights()), "sparsity_config",
                           {{"format", "sparse-24-bitmask"}}),
                "sparsity_config is {");
}

TEST(PublishedFields, BitsAndBytesIsReadInFourBits) {
  const json four = {
      {"quant_method", "bitsandbytes"}, {"load_in_4bit", true}, {"bnb_4bit_quant_type", "nf4"}};
  EXPECT_EQ(FormatWith(four), kF32);
  EXPECT_EQ(FormatWith({{"quant_method", "mxfp4"}}), kMxFp4);
  ExpectRefused({{"quant_method", "mxfp4"}, {"modules_to_not_convert", 1}},
                "modules_to_not_convert is 1; accepted: a list of names of modules",
                absl::StatusCode::kInvalidArgument);
  ExpectRefused({{"quant_method", "bitsandbytes"}, {"load_in_8bit", true}},
                "load_in_4bit is missing; accepted: true");
  ExpectRefused(FieldsWith(four, "bnb_4bit_quant_type", "int4"), "bnb_4bit_quant_type is \"int4\"");
}

// Runs of inputs that ranks may hold alone are no multiples of 128, or of 32.
TEST(PublishedFields, SmallerGroupsAndThenF32KeepWhatDoesNotFit) {
  json config = LlamaConfig();
  config["hidden_size"] = 1024;
  config["intermediate_size"] = 11008;
  config["quantization_config"] = Awq();
  const auto parsed = ParseModelConfig(config.dump(), "", "test");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(FormatOf({TensorRole::kUp, 0}, *parsed, kInt4ZpG128), kInt4ZpG128);
  EXPECT_EQ(FormatOf({TensorRole::kDown, 0}, *parsed, kInt4ZpG128), kInt4Zp);  // runs of 1376
  EXPECT_EQ(FormatOf({TensorRole::kHead}, *parsed, kInt4ZpG128), kBF16);
  config["intermediate_size"] = 1040;
  EXPECT_EQ(
      FormatOf({TensorRole::kDown, 0}, *ParseModelConfig(config.dump(), "", "test"), kInt4ZpG128),
      kF32);  // runs of 130
}

}  // namespace
}  // namespace sluice::testing
