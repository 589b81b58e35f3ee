#include "services/gateway/json/raw_member.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace sluice::gateway {
namespace {

TEST(RawMemberTest, TakesTheLastOfAnyName) {
  EXPECT_EQ(RawMember(R"({"a": 1, "a": [2]})", {"a"}), "[2]");
  EXPECT_EQ(RawMember(R"({"a": {"b": 1}, "a": {"b": 2}})", {"a", "b"}), "2");
  EXPECT_EQ(RawMember(R"({"a": {"b": 1}, "a": {}})", {"a", "b"}), std::nullopt);
}

TEST(RawMemberTest, ReadsNamesAsParsersDo) {
  EXPECT_EQ(RawMember(R"({"tools": 1, "t\u006fols": 2})", {"tools"}), "2");
  EXPECT_EQ(RawMember(R"({"t\u006fols": 1, "tools": 2})", {"tools"}), "2");
  EXPECT_EQ(RawMember(R"({"t\\u006fols": 1})", {"tools"}), std::nullopt);
  EXPECT_EQ(RawMember(R"({"a\"": 1})", {"a\""}), "1");
}

TEST(RawMemberTest, KeepsNoOrderOfLargeObjects) {
  std::string members = "\"n0\": 0";
  for (int i = 1; i < 512; ++i) absl::StrAppend(&members, ", \"n", i, "\": {}");
  EXPECT_EQ(OrderedMember(absl::StrCat("{\"a\": {", members, "}}"), {"a"}).size(), 512);
  EXPECT_TRUE(OrderedMember(absl::StrCat("{\"a\": [{", members, ", \"x\": 1}]}"), {"a"}).is_null());
}

TEST(RawMemberTest, FindsNoMemberInWhatIsNoObject) {
  EXPECT_EQ(FindMember(5, "a"), nullptr);
  EXPECT_EQ(FindMember(nlohmann::ordered_json::array({1}), "a"), nullptr);
  EXPECT_EQ(FindMember({{"b", 1}}, "a"), nullptr);
  EXPECT_EQ(*FindMember({{"a", 1}}, "a"), 1);
}

}  // namespace
}  // namespace sluice::gateway
