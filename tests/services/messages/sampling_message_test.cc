// Sampling options as messages: the table against the proto, there and back.
#include "services/messages/sampling_message.h"

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

SamplingOptions Unusual() {
  return {.allowed_token_ids = {5, 3},
          .banned_token_ids = {9},
          .bad_words_ids = {{1, 2}, {3}},
          .no_repeat_ngram_size = 2,
          .logit_bias = {{3, -0.5F}, {5, 2}},
          .temperature = 0,
          .dynatemp_range = 0.25F,
          .top_k = 7,
          .top_p = 0.5F,
          .seed = 1};
}

TEST(SamplingMessage, HasAFieldForEveryParameterAndNoOther) {
  const google::protobuf::Descriptor& message = *v1::SamplingOptions::descriptor();
  EXPECT_EQ(message.field_count(), static_cast<int>(kSamplingParameters.size()));
  for (const SamplingParameter& parameter : kSamplingParameters) {
    EXPECT_NE(message.FindFieldByName(parameter.name), nullptr) << parameter.name;
  }
}

TEST(SamplingMessage, ComesBackAsItWent) {
  EXPECT_EQ(Merged({}, ToMessage(Unusual())), Unusual());
  EXPECT_EQ(Merged({}, ToMessage({})), SamplingOptions());
}

TEST(SamplingMessage, LeavesOutWhatIsNeutral) {
  EXPECT_EQ(ToMessage({}).ByteSizeLong(), 0u);
  const v1::SamplingOptions message = ToMessage(Unusual());
  EXPECT_TRUE(message.has_temperature());
  EXPECT_FALSE(message.has_min_p());
}

TEST(SamplingMessage, EveryFieldCanBeSetAloneAndRead) {
  for (const SamplingParameter& parameter : kSamplingParameters) {
    v1::SamplingOptions message;
    SetField(parameter, Unusual(), message);
    const SamplingOptions read = Merged({}, message);
    const bool equal = std::visit([&](auto member) { return read.*member == Unusual().*member; },
                                  parameter.member);
    EXPECT_TRUE(equal) << parameter.name;
  }
}

TEST(SamplingMessage, WinsOverDefaultsWhereItSaysSomethingNeutralValuesIncluded) {
  const SamplingOptions defaults{.banned_token_ids = {1}, .temperature = 0.5F, .top_k = 40};
  v1::SamplingOptions message;
  EXPECT_EQ(Merged(defaults, message), defaults);
  message.set_top_k(0);
  message.set_temperature(1);
  message.add_banned_token_ids(2);
  const SamplingOptions expected{.banned_token_ids = {2}};
  EXPECT_EQ(Merged(defaults, message), expected);
}

}  // namespace
}  // namespace sluice
