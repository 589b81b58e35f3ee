#include "services/model/device_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The least that a file of the family holds, and more fields.
absl::Status GpuChecked(const std::string& model_type, const std::string& more = "") {
  const auto config = ParseModelConfig(
      absl::StrCat("{\"model_type\": \"", model_type,
                   "\", \"vocab_size\": 10, \"hidden_size\": 32, \"intermediate_size\": 24, "
                   "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
                   "\"max_position_embeddings\": 64",
                   more, "}"),
      "", "m");
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? CheckGpuComputes(*config) : config.status();
}

TEST(CheckGpuComputes, AcceptsWhatGpusCompute) {
  for (const char* type : {"llama", "gemma2", "gemma3_text", "granite", "phi", "ministral3", "glm4",
                           "cohere", "cohere2", "stablelm"}) {
    EXPECT_TRUE(GpuChecked(type).ok()) << type;
  }
  EXPECT_TRUE(GpuChecked("phi", ", \"qk_layernorm\": true").ok());
}

TEST(CheckGpuComputes, RefusesStatesInPlaceOfKeysByName) {
  for (const char* type : {"qwen3_5_text", "granitemoehybrid"}) {
    const absl::Status states = GpuChecked(type);
    EXPECT_EQ(states.code(), absl::StatusCode::kUnimplemented) << type;
    EXPECT_THAT(std::string(states.message()), HasSubstr("states in place of keys and values"));
  }
}

TEST(CheckGpuComputes, RefusesTheRestByName) {
  const absl::Status whole = GpuChecked("olmo2");
  EXPECT_EQ(whole.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(
      std::string(whole.message()),
      AllOf(HasSubstr("\"olmo2\""), HasSubstr("over all heads"), HasSubstr("--device cpu")));
  for (const auto& [type, field] :
       {std::pair("cohere", "use_qk_norm"), std::pair("stablelm", "qk_layernorm")}) {
    const absl::Status own = GpuChecked(type, absl::StrCat(", \"", field, "\": true"));
    EXPECT_EQ(own.code(), absl::StatusCode::kUnimplemented) << type;
    EXPECT_THAT(std::string(own.message()), HasSubstr("weights for each head"));
  }
}

}  // namespace
}  // namespace sluice::testing
