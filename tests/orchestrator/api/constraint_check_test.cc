// Which constraints are refused before anybody compiles them, and in which words.
#include "orchestrator/api/constraint_check.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

v1::Constraint Parse(const std::string& text) {
  v1::Constraint constraint;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &constraint)) << text;
  return constraint;
}

std::string Refusal(const v1::Constraint& constraint) {
  const absl::Status status = CheckConstraint(constraint, "constraint");
  if (status.ok()) return "";
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

std::string Refusal(const std::string& text) { return Refusal(Parse(text)); }

TEST(CheckConstraint, AcceptsEachKindAlone) {
  for (
      const char* kind :
      {R"(json_schema: "{}")", "any_json: true", R"(regex: "")", R"(grammar: "root ::= \"a\"")",
       R"(choices: "a" choices: "b")",
       R"(structural_tags { tags { begin: "<a>" content { any_json: true } } })",
       R"(structural_tags { tags { begin: "<a>" end: "</a>" } triggers: "<" min_tags: 1 max_tags: 1 })"}) {
    EXPECT_EQ(Refusal(kind), "") << kind;
  }
}

TEST(CheckConstraint, NamesWhatContradicts) {
  EXPECT_EQ(Refusal(R"(regex: "a" any_json: true choices: "b")"),
            "constraint.any_json and constraint.regex and constraint.choices contradict each "
            "other: a text keeps one constraint; set one of them");
  EXPECT_EQ(
      Refusal(R"(structural_tags { tags { begin: "<a>" content { regex: "a" grammar: "b" } } })"),
      "constraint.structural_tags.tags[0].content.regex and "
      "constraint.structural_tags.tags[0].content.grammar contradict each other: a text "
      "keeps one constraint; set one of them");
}

TEST(CheckConstraint, RefusesOneThatSaysNothing) {
  EXPECT_EQ(Refusal(""),
            "constraint is empty; accepted: one of json_schema, any_json, regex, "
            "grammar, choices, structural_tags");
}

TEST(CheckConstraint, LimitsTexts) {
  v1::Constraint schema;
  schema.set_json_schema("");
  EXPECT_EQ(Refusal(schema),
            "the length of constraint.json_schema is 0; accepted: 1 to 1048576 bytes");
  schema.set_json_schema(std::string((1 << 20) + 1, ' '));
  EXPECT_NE(Refusal(schema), "");
  v1::Constraint regex;
  regex.set_regex(std::string(16'385, 'a'));
  EXPECT_EQ(Refusal(regex), "the length of constraint.regex is 16385; accepted: 0 to 16384 bytes");
  EXPECT_EQ(Refusal(R"(choices: "a" choices: "")"),
            "the length of constraint.choices[1] is 0; accepted: 1 to 4096 bytes");
  v1::Constraint many;
  for (int i = 0; i <= 1024; ++i) many.add_choices(absl::StrCat(i));
  EXPECT_EQ(Refusal(many), "the number of constraint.choices is 1025; accepted: 1 to 1024");
}

TEST(CheckConstraint, HoldsTagsAgainstTheirTriggers) {
  EXPECT_EQ(Refusal(R"(structural_tags { tags { begin: "<a>" end: "x" } triggers: "<b" })"),
            "constraint.structural_tags.tags[0].begin starts with none of "
            "constraint.structural_tags.triggers");
  EXPECT_EQ(Refusal("structural_tags {}"),
            "the number of constraint.structural_tags.tags is 0; accepted: 1 to 128");
  EXPECT_EQ(Refusal(R"(structural_tags { tags { begin: "<a>" } })"),
            "the length of constraint.structural_tags.tags[0].end is 0; accepted: 1 to 1024 bytes");
  EXPECT_EQ(Refusal(R"(structural_tags { tags { begin: "a" content { structural_tags {} } } })"),
            "constraint.structural_tags.tags[0].content.structural_tags: tags don't hold tags");
  EXPECT_EQ(Refusal(R"(structural_tags { tags { begin: "a" end: "b" } min_tags: 3 max_tags: 2 })"),
            "constraint.structural_tags.max_tags is 2; accepted: 3 to 64");
  EXPECT_EQ(Refusal(R"(structural_tags { tags { begin: "a" end: "b" } min_tags: -1 })"),
            "constraint.structural_tags.min_tags is -1; accepted: 0 to 64");
}

}  // namespace
}  // namespace sluice
