#include "services/model/rope_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/services/model/model_folder.h"

namespace sluice {
namespace {

using ::nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A model of 64 positions with heads of 4, theta 10000.
absl::StatusOr<ModelConfig> Parse(const json& scaling, const std::string& flag = "",
                                  const json& more = json::object()) {
  json config = json::parse(testing::TinyLlamaConfig());
  if (!scaling.is_null()) config["rope_scaling"] = scaling;
  config.update(more);
  return ParseModelConfig(config.dump(), "", "m", {.rope_scaling = flag});
}

ModelConfig ParsedRope(const json& scaling, const std::string& flag = "",
                       const json& more = json::object()) {
  const auto parsed = Parse(scaling, flag, more);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.value_or(ModelConfig{});
}

std::string RopeRefusal(const json& scaling, const std::string& flag = "",
                        const json& more = json::object()) {
  const auto parsed = Parse(scaling, flag, more);
  return parsed.ok() ? "accepted" : std::string(parsed.status().message());
}

TEST(RopeFields, AFactorStretchesTheContext) {
  EXPECT_EQ(ParsedRope({{"type", "linear"}, {"factor", 4}}).max_positions, 256);
  EXPECT_EQ(ParsedRope({{"type", "ntk"}, {"factor", 2.5}}).max_positions, 160);
  EXPECT_EQ(ParsedRope({{"type", "dynamic"}, {"factor", 2}}).max_positions, 128);
  // A file that says from which length it was stretched names the stretched one itself, or means
  // it.
  EXPECT_EQ(
      ParsedRope({{"rope_type", "yarn"}, {"factor", 2}, {"original_max_position_embeddings", 16}})
          .max_positions,
      64);
  EXPECT_EQ(
      ParsedRope({{"rope_type", "yarn"}, {"factor", 2}, {"original_max_position_embeddings", 64}})
          .max_positions,
      128);
}

TEST(RopeFields, YarnFillsInItsDefaults) {
  const RopeConfig rope =
      ParsedRope({{"rope_type", "yarn"}, {"original_max_position_embeddings", 16}}).ropes.at(0);
  EXPECT_EQ(rope.scaling, RopeScaling::kYarn);
  EXPECT_EQ(rope.factor, 4);  // 64 over 16
  EXPECT_EQ(rope.beta_fast, 32);
  EXPECT_EQ(rope.beta_slow, 1);
  EXPECT_TRUE(rope.truncate);
  EXPECT_NEAR(rope.attention_factor, 0.1 * std::log(4.0) + 1, 1e-12);
  const RopeConfig given = ParsedRope({{"rope_type", "yarn"},
                                       {"factor", 4},
                                       {"attention_factor", 1.5},
                                       {"beta_fast", 8},
                                       {"truncate", false}})
                               .ropes.at(0);
  EXPECT_EQ(given.attention_factor, 1.5);
  EXPECT_EQ(given.beta_fast, 8);
  EXPECT_FALSE(given.truncate);
}

TEST(RopeFields, LongRopeHasTwoListsAndTwoLengths) {
  const json scaling = {{"type", "longrope"},
                        {"short_factor", {1, 2}},
                        {"long_factor", {3, 4.5}},
                        {"original_max_position_embeddings", 16}};
  const ModelConfig config = ParsedRope(scaling);
  EXPECT_THAT(config.ropes.at(0).short_factors, ElementsAre(1, 2));
  EXPECT_THAT(config.ropes.at(0).long_factors, ElementsAre(3, 4.5));
  EXPECT_EQ(config.max_positions, 64);
  EXPECT_NEAR(config.ropes.at(0).attention_factor, std::sqrt(1 + std::log(4.0) / std::log(16.0)),
              1e-12);
  constexpr int32_t kAny = std::numeric_limits<int32_t>::max();
  EXPECT_TRUE(config.ropes.at(0).depends_on_length());
  EXPECT_EQ(config.ropes.at(0).RopeLengthClass(1), 16);
  EXPECT_EQ(config.ropes.at(0).RopeLengthClass(16), 16);
  EXPECT_EQ(config.ropes.at(0).RopeLengthClass(17), kAny);
  EXPECT_EQ(config.ropes.at(0).RopeLengthClass(64), kAny);
}

TEST(RopeFields, DynamicTurnsDifferentlyAtEveryLengthBeyondTheOriginal) {
  const RopeConfig rope = ParsedRope({{"type", "dynamic"}, {"factor", 2}}).ropes.at(0);
  EXPECT_EQ(rope.RopeLengthClass(5), 64);
  EXPECT_EQ(rope.RopeLengthClass(64), 64);
  EXPECT_EQ(rope.RopeLengthClass(65), 65);
  EXPECT_EQ(rope.RopeLengthClass(128), 128);
  EXPECT_FALSE(ParsedRope({{"type", "linear"}, {"factor", 2}}).ropes.at(0).depends_on_length());
}

TEST(RopeFields, TheCommandLineTakesThePlaceOfTheFile) {
  const ModelConfig config = ParsedRope({{"type", "linear"}, {"factor", 8}},
                                        "yarn,factor=4,truncate=false", {{"rope_theta", 500}});
  EXPECT_EQ(config.ropes.at(0).scaling, RopeScaling::kYarn);
  EXPECT_EQ(config.ropes.at(0).factor, 4);
  EXPECT_FALSE(config.ropes.at(0).truncate);
  EXPECT_EQ(config.ropes.at(0).theta, 500);
  EXPECT_EQ(config.max_positions, 256);
  EXPECT_EQ(ParsedRope({{"type", "linear"}, {"factor", 8}}, "default").max_positions, 64);
}

TEST(RopeFields, BadCommandLinesSayWhatIsAccepted) {
  EXPECT_THAT(
      RopeRefusal(nullptr, "yarn,factor"),
      AllOf(HasSubstr("--rope_scaling is \"yarn,factor\""),
            HasSubstr("\"factor\" is not FIELD=VALUE"), HasSubstr("such as yarn,factor=4")));
  EXPECT_THAT(RopeRefusal(nullptr, "yarn,factor=nan"), HasSubstr("not FIELD=VALUE"));
  EXPECT_THAT(RopeRefusal(nullptr, "yarn,factor=2,factor=3"),
              HasSubstr("\"factor\" is there twice"));
  EXPECT_THAT(RopeRefusal(nullptr, "yarn,factor=0.5"),
              HasSubstr("--rope_scaling: factor is 0.5; accepted: a number of at least 1"));
  EXPECT_THAT(RopeRefusal(nullptr, "xpos"),
              HasSubstr("--rope_scaling: rope_type is \"xpos\"; accepted: "));
  EXPECT_THAT(RopeRefusal(nullptr, ","), HasSubstr("FIELD=VALUE"));
  EXPECT_THAT(RopeRefusal(nullptr, "yarn"), HasSubstr("--rope_scaling: factor is missing"));
  EXPECT_THAT(RopeRefusal(nullptr, "yarn,truncate=true,truncate=false"), HasSubstr("there twice"));
  EXPECT_THAT(RopeRefusal(nullptr, "longrope"),
              HasSubstr("--rope_scaling: short_factor is missing; accepted: a list of 2 numbers"));
}

// Rather than to accept what would do nothing.
TEST(RopeFields, FieldsOfTheCommandLineAreThoseOfItsScaling) {
  EXPECT_THAT(RopeRefusal(nullptr, "yarn,factor=4,foo=4"),
              HasSubstr("--rope_scaling: yarn has no field \"foo\"; accepted: factor, "));
  EXPECT_THAT(RopeRefusal(nullptr, "linear,factor=4,beta_fast=8"),
              HasSubstr("linear has no field \"beta_fast\"; accepted: factor"));
  EXPECT_THAT(RopeRefusal(nullptr, "default,factor=4"),
              HasSubstr("default has no field \"factor\"; accepted: none"));
  EXPECT_THAT(RopeRefusal(nullptr, "linear,truncate=true"), HasSubstr("no field \"truncate\""));
  EXPECT_EQ(ParsedRope(nullptr, "yarn,factor=4,beta_fast=16,mscale=1").ropes.at(0).beta_fast, 16);
}

TEST(RopeFields, ModelsWithoutRotaryPositionsHaveNothingToScale) {
  EXPECT_THAT(RopeRefusal(nullptr, "yarn,factor=4",
                          {{"model_type", "sluice_decoder"}, {"position", "none"}}),
              HasSubstr("its positions are not rotary"));
}

TEST(RopeFields, FactorsAreAtLeastOne) {
  for (const char* type : {"linear", "ntk", "dynamic", "yarn"}) {
    EXPECT_THAT(
        RopeRefusal({{"type", type}, {"factor", 0.99}}),
        HasSubstr("m/config.json: rope_scaling.factor is 0.99; accepted: a number of at least 1"));
    EXPECT_THAT(RopeRefusal({{"type", type}, {"factor", "4"}}),
                HasSubstr("rope_scaling.factor is \"4\""));
    EXPECT_THAT(RopeRefusal({{"type", type}, {"factor", 1e300}}),
                HasSubstr("rope_scaling.factor is 1e+300"));
  }
  EXPECT_THAT(
      RopeRefusal(
          {{"type", "llama3"}, {"factor", 0.99}, {"low_freq_factor", 1}, {"high_freq_factor", 4}}),
      HasSubstr("rope_scaling.factor is 0.99; accepted: a number of at least 1"));
  EXPECT_THAT(RopeRefusal({{"type", "longrope"},
                           {"factor", 0.99},
                           {"short_factor", {1, 2}},
                           {"long_factor", {3, 4}}}),
              HasSubstr("rope_scaling.factor is 0.99; accepted: a number of at least 1"));
  EXPECT_THAT(RopeRefusal({{"type", "linear"}}),
              HasSubstr("rope_scaling.factor is missing; accepted: a number"));
  EXPECT_THAT(RopeRefusal({{"type", "linear"}, {"factor", 1e6}}, "",
                          {{"max_position_embeddings", 1 << 20}}),
              HasSubstr("one that reaches at most 268435456 positions from 1048576"));
}

TEST(RopeFields, UnknownTypesAreRefusedInEverySpelling) {
  for (const char* object : {"rope_scaling", "rope_parameters"}) {
    for (const char* key : {"type", "rope_type"}) {
      const auto parsed =
          Parse(nullptr, "", {{object, {{key, "xpos"}, {"factor", 2}, {"rope_theta", 500}}}});
      EXPECT_EQ(parsed.status().code(), absl::StatusCode::kUnimplemented);
      EXPECT_THAT(std::string(parsed.status().message()),
                  AllOf(HasSubstr(absl::StrCat("m/config.json: ", object, ".", key,
                                               " is \"xpos\"; accepted: \"default\", \"linear\"")),
                        HasSubstr("\"longrope\"")));
      EXPECT_THAT(RopeRefusal(nullptr, "", {{object, {{key, 4}}}}),
                  HasSubstr(absl::StrCat("m/config.json: ", object, ".", key, " is 4")));
    }
  }
}

TEST(RopeFields, NumbersMustFitTogether) {
  EXPECT_THAT(RopeRefusal({{"type", "yarn"}, {"factor", 2}, {"beta_fast", 1}, {"beta_slow", 2}}),
              HasSubstr("rope_scaling.beta_fast is 1; accepted: at least beta_slow, 2"));
  EXPECT_THAT(RopeRefusal({{"type", "yarn"}, {"factor", 2}}, "", {{"rope_theta", 1}}),
              HasSubstr("rope_theta is 1; accepted with yarn: above 1"));
  EXPECT_THAT(RopeRefusal({{"type", "llama3"}, {"factor", 8}}),
              HasSubstr("rope_scaling.low_freq_factor is missing"));
  EXPECT_THAT(
      RopeRefusal(
          {{"type", "llama3"}, {"factor", 8}, {"low_freq_factor", 5}, {"high_freq_factor", 4}}),
      HasSubstr("rope_scaling.high_freq_factor is 4; accepted: at least low_freq_factor, 5"));
  EXPECT_THAT(RopeRefusal({{"type", "ntk"}, {"factor", 2}}, "", {{"head_dim", 2}}),
              HasSubstr("accepted: 4 or more"));
  json longrope = {{"type", "longrope"}, {"short_factor", {1, 2}}, {"long_factor", {3, 4}}};
  for (const json& wrong : {json(4), json::array({1}), json::array({1, 2, 3}), json::array({1, 0}),
                            json::array({1, "2"}), json::array({-1, 1})}) {
    longrope["long_factor"] = wrong;
    EXPECT_THAT(RopeRefusal(longrope), HasSubstr("rope_scaling.long_factor is " + wrong.dump() +
                                                 "; accepted: a list of 2 numbers above 0"));
  }
  EXPECT_THAT(RopeRefusal(nullptr, "", {{"partial_rotary_factor", 1.5}}),
              HasSubstr("partial_rotary_factor is 1.5"));
  EXPECT_THAT(RopeRefusal(nullptr, "", {{"partial_rotary_factor", 0.3}}),
              HasSubstr("rotary positions would turn 1 of 4"));
}

}  // namespace
}  // namespace sluice
