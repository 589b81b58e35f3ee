#include "services/gateway/tool_calls/tool_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace sluice::gateway {
namespace {

using ::testing::HasSubstr;

constexpr char kSchema[] = R"({"type":"object","properties":{"z":{"$ref":"#/$defs/n"},"a":{}},)"
                           R"("$defs":{"n":{"type":"integer"}}})";

ToolChoice TwoTools() {
  return {.tools = {{.name = "weather", .description = "Tells it.", .parameters = kSchema},
                    {.name = "ti\"me"}}};
}

v1::Constraint ConstraintOf(const ToolChoice& choice, ToolFormat format) {
  const auto constraint = ToolConstraint(choice, format);
  EXPECT_TRUE(constraint.ok()) << constraint.status();
  if (!constraint.ok() || !constraint->has_value()) return {};
  return **constraint;
}

TEST(ToolChoiceTest, TemplatesSeeToolsInTheOrderTheyWereWrittenIn) {
  EXPECT_EQ(ToolsJson(TwoTools().tools),
            std::string(R"([{"type":"function","function":{"name":"weather","description":)") +
                R"("Tells it.","parameters":)" + kSchema +
                R"(}},{"type":"function","function":{"name":"ti\"me"}}])");
  EXPECT_EQ(ToolsJson({}), "");
}

TEST(ToolChoiceTest, OffersWithoutPromisesNeedNoConstraint) {
  EXPECT_FALSE(ToolConstraint({}, ToolFormat::kHermes)->has_value());
  EXPECT_FALSE(ToolConstraint(TwoTools(), ToolFormat::kHermes)->has_value());
}

TEST(ToolChoiceTest, OneRequiredToolIsItsArguments) {
  ToolChoice choice = TwoTools();
  choice.required = true;
  EXPECT_EQ(OnlyTool(choice), "");
  choice.tools.pop_back();
  EXPECT_EQ(OnlyTool(choice), "weather");
  EXPECT_EQ(ConstraintOf(choice, ToolFormat::kNone).json_schema(), kSchema);
}

TEST(ToolChoiceTest, ARequiredOneOfSeveralIsAnArrayOfCalls) {
  ToolChoice choice = TwoTools();
  choice.required = true;
  choice.parallel = false;
  const auto schema =
      nlohmann::json::parse(ConstraintOf(choice, ToolFormat::kPythonic).json_schema());
  EXPECT_EQ(schema["minItems"], 1);
  EXPECT_EQ(schema["maxItems"], 1);
  const auto& calls = schema["items"]["anyOf"];
  ASSERT_EQ(calls.size(), 2);
  EXPECT_EQ(calls[1]["properties"]["name"]["const"], "ti\"me");
  EXPECT_EQ(calls[0]["properties"]["arguments"]["$id"], "tool:0");
}

TEST(ToolChoiceTest, StrictToolsAreTags) {
  ToolChoice choice = TwoTools();
  choice.tools[0].strict = true;
  choice.parallel = false;
  const v1::StructuralTags tags = ConstraintOf(choice, ToolFormat::kHermes).structural_tags();
  ASSERT_EQ(tags.tags_size(), 2);
  EXPECT_EQ(tags.tags(0).begin(), "<tool_call>\n{\"name\": \"weather\", \"arguments\": ");
  EXPECT_EQ(tags.tags(0).content().json_schema(), kSchema);
  EXPECT_EQ(tags.tags(1).begin(), "<tool_call>\n{\"name\": \"ti\\\"me\", \"arguments\": ");
  EXPECT_EQ(tags.tags(1).content().json_schema(), R"({"type": "object"})");
  EXPECT_EQ(tags.min_tags(), 0);
  EXPECT_EQ(tags.max_tags(), 1);
  EXPECT_FALSE(ToolConstraint(choice, ToolFormat::kNone)->has_value());
}

TEST(ToolChoiceTest, StrictIsRefusedWhereItCannotBeKept) {
  ToolChoice choice = TwoTools();
  choice.tools[0].strict = true;
  for (const ToolFormat format :
       {ToolFormat::kMistral, ToolFormat::kPythonic, ToolFormat::kGemma}) {
    EXPECT_THAT(std::string(ToolConstraint(choice, format).status().message()),
                HasSubstr("'strict'"));
  }
}

}  // namespace
}  // namespace sluice::gateway
