#include "services/gateway/json/raw_member.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "services/gateway/json/object_writer.h"

namespace sluice::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(RawMemberTest, IsTheTextAsItWasWritten) {
  const std::string text = R"( {"a": {"z": 1.50, "b": [1e22, "}"]} , "c": null})";
  EXPECT_EQ(RawMember(text, {"a"}), R"({"z": 1.50, "b": [1e22, "}"]})");
  EXPECT_EQ(RawMember(text, {"a", "z"}), "1.50");
  EXPECT_EQ(RawMember(text, {"c"}), "null");
  EXPECT_EQ(RawMember(text, {"d"}), std::nullopt);
  EXPECT_EQ(RawMember(text, {"a", "z", "x"}), std::nullopt);
}

TEST(RawMemberTest, TheLastOfANameCountsHoweverItIsSpelled) {
  EXPECT_EQ(RawMember(R"({"tools": 1, "t\u006fols": 2})", {"tools"}), "2");
  EXPECT_EQ(RawMember(R"({"t\u006fols": 1, "tools": 2})", {"tools"}), "2");
  EXPECT_EQ(RawMember(R"({"tool\\s": 1})", {"tools"}), std::nullopt);
}

TEST(RawMemberTest, TakesTheLastOfAnyName) {
  EXPECT_EQ(RawMember(R"({"a": 1, "a": [2]})", {"a"}), "[2]");
  EXPECT_EQ(RawMember(R"({"a": {"b": 1}, "a": {"b": 2}})", {"a", "b"}), "2");
  EXPECT_EQ(RawMember(R"({"a": {"b": 1}, "a": {}})", {"a", "b"}), std::nullopt);
  EXPECT_EQ(RawMember(R"({"t\\u006fols": 1})", {"tools"}), std::nullopt);
  EXPECT_EQ(RawMember(R"({"a\"": 1})", {"a\""}), "1");
}

TEST(RawMemberTest, KnowsLargeObjects) {
  std::string members = "\"n0\": 0";
  for (int i = 1; i < 512; ++i) absl::StrAppend(&members, ", \"n", i, "\": {}");
  EXPECT_FALSE(HasLargeObject(absl::StrCat("{", members, "}")));
  EXPECT_TRUE(HasLargeObject(absl::StrCat("[{", members, ", \"x\": 1}]")));
}

TEST(RawMemberTest, MembersAndElementsComeInTheirOrder) {
  EXPECT_THAT(RawMembers(R"({"z": [1, 2], "\u0061": "x,}"})"),
              ElementsAre(Pair("z", "[1, 2]"), Pair("a", R"("x,}")")));
  EXPECT_THAT(RawElements(R"( [1.0, {"a": [","]}, "]"] )"),
              ElementsAre("1.0", R"({"a": [","]})", R"("]")"));
  EXPECT_THAT(RawElements("[]"), IsEmpty());
  EXPECT_THAT(RawElements("{}"), IsEmpty());
  EXPECT_THAT(RawMembers("[]"), IsEmpty());
}

TEST(RawMemberTest, WhatIsNoJsonEnds) {
  for (const char* text : {"", "{", "{\"", "{\"a", "{\"a\"", "{\"a\":", "{\"a\": \"", "[", "[1",
                           "[\"", "{\"a\\", "{\"\\u00"}) {
    RawMembers(text);
    RawElements(text);
    RawMember(text, {"a"});
  }
}

TEST(ObjectWriterTest, TakesTextsAsTheyAre) {
  EXPECT_EQ(ObjectWriter().Text(), "{}");
  EXPECT_EQ(ObjectWriter().Add("a\"", "b").AddText("c", "1.50").Text(), R"({"a\"":"b","c":1.50})");
}

}  // namespace
}  // namespace sluice::gateway
