// The table of sampling parameters, what is refused by it, and the document that follows from it.
#include "kernels/sampling_options/sampling_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <string>

#include "kernels/sampling_options/sampling_check.h"
#include "kernels/sampling_options/sampling_reference.h"
#include "tests/testing/test_data.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kVocabulary = 100;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::string Refusal(const SamplingOptions& options) {
  const absl::Status status = CheckSamplingOptions(options, kVocabulary, "sampling.");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(SamplingParameters, HaveDifferentNamesAndSaySomething) {
  std::set<std::string> names;
  for (const SamplingParameter& parameter : kSamplingParameters) {
    EXPECT_TRUE(names.insert(parameter.name).second) << parameter.name;
    for (const char* text : {parameter.value, parameter.help, parameter.source}) {
      EXPECT_STRNE(text, "") << parameter.name;
    }
  }
}

TEST(CheckSamplingOptions, AcceptsNeutralValuesAndTheEndsOfRanges) {
  EXPECT_TRUE(CheckSamplingOptions({}, kVocabulary).ok());
  EXPECT_TRUE(CheckSamplingOptions(
                  {.temperature = 0, .top_k = 1 << 30, .top_p = 1e-30F, .min_p = 1}, kVocabulary)
                  .ok());
  EXPECT_TRUE(CheckSamplingOptions({.allowed_token_ids = {0, 99},
                                    .banned_token_ids = {1},
                                    .logit_bias = {{0, -100}, {99, 100}},
                                    .temperature = 2,
                                    .dynatemp_range = 2,
                                    .xtc_probability = 1,
                                    .xtc_threshold = 0.5F,
                                    .seed = std::numeric_limits<uint64_t>::max()},
                                   kVocabulary)
                  .ok());
}

TEST(CheckSamplingOptions, NamesFieldValueAndRange) {
  EXPECT_EQ(Refusal({.temperature = -0.5F}),
            "sampling.temperature is -0.5; accepted: a finite number, 0 or more");
  EXPECT_EQ(Refusal({.temperature = kNaN}),
            "sampling.temperature is nan; accepted: a finite number, 0 or more");
  EXPECT_EQ(Refusal({.temperature = kInfinity}),
            "sampling.temperature is inf; accepted: a finite number, 0 or more");
  EXPECT_EQ(Refusal({.top_k = -1}), "sampling.top_k is -1; accepted: 0 or more");
  EXPECT_EQ(Refusal({.top_p = 0}), "sampling.top_p is 0; accepted: above 0, up to 1");
  EXPECT_EQ(Refusal({.top_p = 1.5F}), "sampling.top_p is 1.5; accepted: above 0, up to 1");
  EXPECT_EQ(Refusal({.top_p = kNaN}), "sampling.top_p is nan; accepted: above 0, up to 1");
  EXPECT_EQ(Refusal({.repetition_penalty = 0}),
            "sampling.repetition_penalty is 0; accepted: a finite number, above 0");
  EXPECT_EQ(Refusal({.presence_penalty = -2.5F}),
            "sampling.presence_penalty is -2.5; accepted: -2 to 2");
  EXPECT_EQ(Refusal({.min_p = 1.25F}), "sampling.min_p is 1.25; accepted: 0 to 1");
  EXPECT_EQ(Refusal({.dynatemp_exponent = 0}),
            "sampling.dynatemp_exponent is 0; accepted: a finite number, above 0");
  EXPECT_EQ(Refusal({.xtc_threshold = 0.75F}),
            "sampling.xtc_threshold is 0.75; accepted: 0 to 0.5");
}

TEST(CheckSamplingOptions, LimitsListsAndTheirEntries) {
  EXPECT_EQ(Refusal({.banned_token_ids = {3, 100}}),
            "sampling.banned_token_ids[1] is 100; accepted: 0 to 99, the model's vocabulary");
  EXPECT_EQ(Refusal({.allowed_token_ids = {-1}}),
            "sampling.allowed_token_ids[0] is -1; accepted: 0 to 99, the model's vocabulary");
  EXPECT_EQ(Refusal({.logit_bias = {{5, -100.5F}}}),
            "sampling.logit_bias of token 5 is -100.5; accepted: -100 to 100");
  EXPECT_EQ(Refusal({.logit_bias = {{5, kNaN}}}),
            "sampling.logit_bias of token 5 is nan; accepted: -100 to 100");
  EXPECT_EQ(Refusal({.bad_words_ids = {{1, 2}, {}}}),
            "the number of tokens of sampling.bad_words_ids[1] is 0; accepted: 1 to 64");
  EXPECT_EQ(Refusal({.bad_words_ids = {{1, 100}}}),
            "sampling.bad_words_ids[0][1] is 100; accepted: 0 to 99, the model's vocabulary");
  EXPECT_EQ(Refusal({.logit_bias = std::vector<TokenBias>(1025)}),
            "the number of sampling.logit_bias is 1025; accepted: up to 1024 entries");
}

TEST(CheckSamplingOptions, RefusesOptionsThatContradictEachOther) {
  EXPECT_EQ(Refusal({.allowed_token_ids = {4, 7}, .banned_token_ids = {7}}),
            "token 7 is both in sampling.allowed_token_ids and in sampling.banned_token_ids");
  EXPECT_EQ(Refusal({.banned_token_ids = {7}, .logit_bias = {{7, 1}}}),
            "token 7 is both in sampling.logit_bias and in sampling.banned_token_ids");
  EXPECT_EQ(Refusal({.allowed_token_ids = {4}, .logit_bias = {{7, 1}}}),
            "token 7 is in sampling.logit_bias but not in sampling.allowed_token_ids");
  EXPECT_EQ(Refusal({.temperature = 0.5F, .dynatemp_range = 0.75F}),
            "sampling.dynatemp_range is 0.75; accepted: up to the temperature, which is 0.5");
  EXPECT_THAT(Refusal({.temperature = 0, .xtc_probability = 1}),
              HasSubstr("sampling.xtc_probability is 1; accepted: 0 where temperature is 0"));
  std::vector<int32_t> all(kVocabulary);
  for (int32_t id = 0; id < kVocabulary; ++id) all[id] = id;
  EXPECT_EQ(Refusal({.banned_token_ids = all}),
            "sampling.banned_token_ids has every token of the vocabulary");
}

TEST(SamplingReference, IsWhatTheDocumentSays) {
  std::ifstream file(testing::ProjectPath("docs/sampling.md"));
  std::stringstream document;
  document << file.rdbuf();
  EXPECT_THAT(document.str(), HasSubstr("\n\n" + SamplingReference() + "\n"))
      << "docs/sampling.md is to hold this table:\n"
      << SamplingReference();
}

}  // namespace
}  // namespace sluice
