// The official test suite: what compiles judges every instance right. What does not compile is
// listed with its reason (docs/json_schema.md gives the list).
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

#include "services/constraint/json/json_value.h"
#include "services/constraint/schema/schema_compiler.h"
#include "tests/services/constraint/grammar_text.h"
#include "tests/testing/test_data.h"

namespace sluice {
namespace {

constexpr char kSuite[] = "json_schema/test_suite/draft2020-12";

// The suite says which values keep a schema, however they are spelled: 1.0 is an integer.
JsonValue AnySpelling(JsonValue schema) {
  if (schema.is_object())
    schema.members.push_back({"x-integers", {.type = JsonValue::Type::kString, .text = "any"}});
  return schema;
}

TEST(JsonSchemaTestSuite, WhatCompilesIsRight) {
  SLUICE_SKIP_WITHOUT(kSuite);
  int right = 0, refused = 0;
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(*testing::TestData(kSuite)))
    if (entry.path().extension() == ".json") files.insert(entry.path());
  for (const auto& path : files) {
    std::ifstream file(path);
    const std::string text((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    const auto groups = ParseJsonValue(text);
    ASSERT_TRUE(groups.ok()) << path << groups.status();
    for (const JsonValue& group : groups->items) {
      const std::string name = path.filename().string() + ": " + group.Find("description")->text;
      const auto grammar = CompileJsonSchema(AnySpelling(*group.Find("schema")));
      if (!grammar.ok()) {
        ++refused;
        std::printf("%s\n  %s\n", name.c_str(), std::string(grammar.status().message()).c_str());
        continue;
      }
      for (const JsonValue& test : group.Find("tests")->items) {
        const bool valid = test.Find("valid")->type == JsonValue::Type::kTrue;
        EXPECT_EQ(testing::Accepts(**grammar, JsonText(*test.Find("data"))), valid)
            << name << ": " << test.Find("description")->text;
        ++right;
      }
    }
  }
  std::printf("%d instances held against their schemas; %d schemas not compiled\n", right, refused);
  EXPECT_GT(right, 700);
}

}  // namespace
}  // namespace sluice
