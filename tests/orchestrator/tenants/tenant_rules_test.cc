// What the operator's file says about tenants, and what it may not say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/tenants/tenant_book.h"
#include "tests/services/model/model_folder.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TenantRules, WhatAnEntryLeavesOutIsTheDefaults) {
  const auto rules = ParseTenantRules(
      R"({"default": {"weight": 2, "max_running_sequences": 8},
          "tenants": {"a": {"weight": 0.5, "priorities": [0, 5]},
                      "b": {"max_waiting_sequences": 0, "max_running_sequences": 1}}})",
      "tenants.json");
  ASSERT_TRUE(rules.ok()) << rules.status();
  const TenantPolicies policies = rules->Policies();
  EXPECT_EQ(policies.Of("nobody").weight, 2);
  EXPECT_EQ(policies.Of("a").weight, 0.5);
  EXPECT_EQ(policies.Of("a").max_running_sequences, 8);
  EXPECT_EQ(policies.Of("b").weight, 2);
  EXPECT_EQ(policies.Of("b").max_running_sequences, 1);
  EXPECT_EQ(policies.Of("b").max_waiting_sequences, 0);
  EXPECT_THAT(rules->Of("a").priorities, ElementsAre(0, 5));
  EXPECT_THAT(rules->Of("b").priorities, ElementsAre(0));
}

TEST(TenantRules, AnEmptyObjectSaysNothing) {
  const auto rules = ParseTenantRules("{}", "t");
  ASSERT_TRUE(rules.ok()) << rules.status();
  EXPECT_EQ(rules->Policies().Of("a").weight, 1);
  EXPECT_EQ(rules->Policies().max_slowdown, TenantPolicies().max_slowdown);
}

TEST(TenantRules, SayHowMuchLongerStepsMayTake) {
  const auto rules = ParseTenantRules(R"({"max_slowdown": 1.5})", "t");
  ASSERT_TRUE(rules.ok()) << rules.status();
  EXPECT_EQ(rules->Policies().max_slowdown, 1.5);
}

TEST(TenantRules, NameWhatIsWrong) {
  const auto expect_refused = [](const std::string& text, const std::string& message) {
    const absl::Status status = ParseTenantRules(text, "t").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  };
  expect_refused("[]", "t: it is []; accepted: an object");
  expect_refused("{", "t");
  expect_refused(R"({"tenant": {}})",
                 "t: tenant is unknown; accepted: default, max_slowdown, tenants");
  expect_refused(R"({"tenants": []})", "t: tenants is []; accepted: an object");
  expect_refused(R"({"tenants": {"a": 1}})", "t: tenants.a is 1; accepted: an object");
  expect_refused(R"({"tenants": {"a": {"wait": 1}}})", "t: tenants.a.wait is unknown");
  expect_refused(R"({"tenants": {"a": {"weight": 0}}})", "t: tenants.a.weight is 0");
  expect_refused(R"({"default": {"weight": "1"}})", "t: default.weight is \"1\"");
  expect_refused(R"({"default": {"max_running_sequences": 0}})",
                 "t: default.max_running_sequences is 0");
  expect_refused(R"({"max_slowdown": 0.9})", "t: max_slowdown is 0.9");
  expect_refused(R"({"default": {"priorities": []}})", "t: default.priorities is []");
}

TEST(TenantBook, KeptPrefixesAreSharedWithinATenantAlone) {
  const TenantBook book("");
  EXPECT_EQ(book.CacheDomain("a", ""), book.CacheDomain("a", ""));
  const std::vector<std::pair<std::string, std::string>> all = {
      {"a", ""}, {"b", ""}, {"a", "s"}, {"b", "s"}, {"as", ""}, {"", "as"}, {"", "1:as"}};
  std::set<std::string> domains;
  for (const auto& [tenant, salt] : all) domains.insert(book.CacheDomain(tenant, salt));
  EXPECT_EQ(domains.size(), all.size());
}

TEST(TenantBook, KeptPrefixesAreSharedByASaltWhereTheRulesOfBothTenantsSaySo) {
  testing::TempFolder folder;
  TenantBook book(folder.Write(
      "t.json",
      R"({"tenants": {"a": {"shares_prefixes": true}, "b": {"shares_prefixes": true}}})"));
  ASSERT_TRUE(book.Load().ok());
  EXPECT_EQ(book.CacheDomain("a", "s"), book.CacheDomain("b", "s"));
  EXPECT_NE(book.CacheDomain("a", "s"), book.CacheDomain("b", "t"));
  EXPECT_NE(book.CacheDomain("a", "s"), book.CacheDomain("c", "s"));
  EXPECT_NE(book.CacheDomain("a", ""), book.CacheDomain("b", ""));
}

TEST(TenantBook, WithoutAFileEverybodyHasPriority0) {
  TenantBook book("");
  EXPECT_TRUE(book.Load().ok());
  EXPECT_TRUE(book.CheckPriority("a", 0).ok());
  EXPECT_EQ(book.CheckPriority("a", 7).message(), "priority is 7; accepted for tenant \"a\": 0");
}

TEST(TenantBook, ReadsItsFileAgainAndKeepsTheRulesOfTheLastGoodOne) {
  testing::TempFolder folder;
  TenantBook book(folder.path() + "/tenants.json");
  EXPECT_EQ(book.Load().code(), absl::StatusCode::kNotFound);
  folder.Write("tenants.json", R"({"tenants": {"a": {"priorities": [0, 7], "weight": 3}}})");
  const auto before = book.policies();
  ASSERT_TRUE(book.Load().ok());
  EXPECT_NE(book.policies(), before);
  EXPECT_EQ(book.policies(), book.policies());
  EXPECT_TRUE(book.CheckPriority("a", 7).ok());
  EXPECT_EQ(book.policies()->Of("a").weight, 3);
  folder.Write("tenants.json", "{");
  EXPECT_EQ(book.Load().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(book.policies()->Of("a").weight, 3);
}

}  // namespace
}  // namespace sluice
