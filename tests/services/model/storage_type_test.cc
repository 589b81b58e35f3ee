#include "services/model/storage_type.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using ::testing::HasSubstr;

TEST(StorageType, NamesOfWeightTypesAreRead) {
  for (const WeightType type : {WeightType::kAuto, WeightType::kF32, WeightType::kBF16,
                                WeightType::kInt8, WeightType::kInt4, WeightType::kFp8}) {
    EXPECT_EQ(*ParseWeightType(Name(type)), type);
  }
  for (const WeightFormatTraits& traits : kWeightFormats) {
    EXPECT_EQ(ParseWeightType(traits.flag).ok(), traits.is_selectable) << traits.flag;
  }
  EXPECT_EQ(*ParseWeightType("int4"), WeightType::kInt4);
  EXPECT_EQ(*ParseWeightType("fp8"), WeightType::kFp8);
}

TEST(StorageType, UnknownOnesAreNamed) {
  EXPECT_THAT(
      std::string(ParseWeightType("q4_0").status().message()),
      HasSubstr("\"q4_0\"; accepted: auto, f32, bf16, int8, int4, fp8, int8-g64, fp8-w8a8"));
  EXPECT_FALSE(ParseWeightType("").ok());
  EXPECT_THAT(std::string(ParseKvDType("f16").status().message()),
              HasSubstr("\"f16\"; accepted: f32, bf16, fp8"));
}

TEST(StorageType, TypesOfKeysAndValuesAreRead) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF8E4M3}) {
    EXPECT_EQ(*ParseKvDType(KvDTypeName(dtype)), dtype);
  }
}

}  // namespace
}  // namespace sluice
