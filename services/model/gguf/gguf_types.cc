#include "services/model/gguf/gguf_types.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "services/model/gguf/gguf_blocks.h"

namespace sluice {
namespace {

constexpr GgufType kTypes[] = {
    {0, "F32", 1, 4, DecodeGgufF32},    {1, "F16", 1, 2, DecodeGgufF16},
    {30, "BF16", 1, 2, DecodeGgufBF16}, {2, "Q4_0", 32, 18, DecodeQ4_0},
    {3, "Q4_1", 32, 20, DecodeQ4_1},    {6, "Q5_0", 32, 22, DecodeQ5_0},
    {7, "Q5_1", 32, 24, DecodeQ5_1},    {8, "Q8_0", 32, 34, DecodeQ8_0},
    {10, "Q2_K", 256, 84, DecodeQ2K},   {11, "Q3_K", 256, 110, DecodeQ3K},
    {12, "Q4_K", 256, 144, DecodeQ4K},  {13, "Q5_K", 256, 176, DecodeQ5K},
    {14, "Q6_K", 256, 210, DecodeQ6K},  {39, "MXFP4", 32, 17, DecodeGgufMxfp4},
    {24, "I8", 1, 1, nullptr},          {25, "I16", 1, 2, nullptr},
    {26, "I32", 1, 4, nullptr},         {27, "I64", 1, 8, nullptr},
    {28, "F64", 1, 8, nullptr},
};

// Types of other programs' files, for messages.
struct NumberedName {
  uint32_t number;
  const char* name;
};
constexpr NumberedName kOtherNames[] = {
    {9, "Q8_1"},   {15, "Q8_K"},   {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"},
    {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"},   {22, "IQ2_S"},  {23, "IQ4_XS"},
    {29, "IQ1_M"}, {34, "TQ1_0"},  {35, "TQ2_0"},   {40, "NVFP4"},
};

}  // namespace

const GgufType* FindGgufType(uint32_t number) {
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [&](const GgufType& type) { return type.number == number; });
  return found == std::end(kTypes) ? nullptr : found;
}

std::string GgufTypeName(uint32_t number) {
  if (const GgufType* type = FindGgufType(number)) return type->name;
  for (const NumberedName& other : kOtherNames) {
    if (other.number == number) return other.name;
  }
  return absl::StrCat("number ", number);
}

std::string WeightGgufTypes() {
  std::vector<const char*> names;
  for (const GgufType& type : kTypes) {
    if (type.decode != nullptr) names.push_back(type.name);
  }
  return absl::StrJoin(names, ", ");
}

}  // namespace sluice
