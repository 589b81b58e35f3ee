#include "services/model/sampling_defaults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/services/model/model_folder.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;

TEST(SamplingDefaults, AreWhatTheFileSays) {
  const auto options = ParseSamplingDefaults(
      R"({"do_sample": true, "temperature": 0.6, "top_k": 50, "top_p": 0.9, "min_p": 0.05,
          "typical_p": 0.8, "repetition_penalty": 1.1, "no_repeat_ngram_size": 3,
          "min_new_tokens": 2, "max_length": 4096, "transformers_version": "4.36"})",
      "generation_config.json");
  ASSERT_TRUE(options.ok()) << options.status();
  const SamplingOptions expected{.min_tokens = 2,
                                 .no_repeat_ngram_size = 3,
                                 .repetition_penalty = 1.1F,
                                 .temperature = 0.6F,
                                 .top_k = 50,
                                 .top_p = 0.9F,
                                 .min_p = 0.05F,
                                 .typical_p = 0.8F};
  EXPECT_EQ(*options, expected);
}

TEST(SamplingDefaults, AreNeutralWhereTheFileSaysNothingOrIsMissing) {
  EXPECT_EQ(*ParseSamplingDefaults(R"({"top_k": null})", "x"), SamplingOptions());
  EXPECT_EQ(*ParseSamplingDefaults(R"({"top_k": -1})", "x"), SamplingOptions());
  EXPECT_EQ(ParseSamplingDefaults(R"({"top_k": 50.0})", "x")->top_k, 50);
  const TempFolder folder;
  EXPECT_EQ(*LoadSamplingDefaults(folder.path()), SamplingOptions());
}

TEST(SamplingDefaults, WithoutSamplingTakeTheMostProbableToken) {
  EXPECT_EQ(ParseSamplingDefaults(R"({"do_sample": false, "temperature": 0.6})", "x")->temperature,
            0);
}

TEST(SamplingDefaults, AreRefusedByNameOutOfRange) {
  const auto refusal = [](const std::string& text) {
    const auto options = ParseSamplingDefaults(text, "generation_config.json");
    EXPECT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(options.status().message());
  };
  EXPECT_THAT(refusal(R"({"min_p": 1.5})"), HasSubstr("generation_config.json: min_p is 1.5"));
  EXPECT_THAT(refusal(R"({"repetition_penalty": 0})"), HasSubstr("repetition_penalty is 0"));
  EXPECT_THAT(refusal(R"({"min_new_tokens": -1})"), HasSubstr("min_new_tokens is -1"));
  EXPECT_THAT(refusal("{"), HasSubstr("not JSON"));
}

}  // namespace
}  // namespace sluice::testing
