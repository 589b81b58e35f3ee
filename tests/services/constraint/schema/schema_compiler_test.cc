#include "services/constraint/schema/schema_compiler.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/services/constraint/grammar_text.h"

namespace sluice {
namespace {

using testing::Accepts;

void Expect(std::string_view schema, const std::vector<std::string>& good,
            const std::vector<std::string>& bad) {
  const auto grammar = CompileJsonSchema(schema);
  ASSERT_TRUE(grammar.ok()) << schema << ": " << grammar.status();
  for (const std::string& text : good) EXPECT_TRUE(Accepts(**grammar, text)) << schema << text;
  for (const std::string& text : bad) EXPECT_FALSE(Accepts(**grammar, text)) << schema << text;
}

absl::Status Refusal(std::string_view schema) { return CompileJsonSchema(schema).status(); }

TEST(JsonSchema, TakesAnyJson) {
  Expect("true",
         {"null", "[1, {\"a\": \"\\u00e9\\ud83d\\ude00\"}]", "-1.5e+3", "\"é\"", "{}", "[[],[]]"},
         {"", "nul", "[1,]", "{\"a\"}", "\"\\ud83d\"", "\"\xC3\"", "\"\xED\xA0\x80\"",
          "\"\xC0\x80\"", "\"\n\"", "1 "});
}

TEST(JsonSchema, SpacingIsAsAsked) {
  Expect(R"({"type":"array","x-whitespace":"none"})", {"[1,2]"}, {"[1, 2]"});
  Expect(R"({"type":"array"})", {"[1,2]", "[1, 2]"}, {"[ 1,2]", "[1,  2]", "[1 ,2]"});
  Expect(R"({"type":"array","x-whitespace":"any"})", {"[1,2]", "[ 1 ,\n\t2 ]"}, {"[1,\v2]"});
  EXPECT_EQ(Refusal(R"({"x-whitespace":"some"})").code(), absl::StatusCode::kInvalidArgument);
}

TEST(JsonSchema, MembersComeInTheSchemasOrder) {
  Expect(R"({"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"integer"}},
             "required":["a","z"],"additionalProperties":{"type":"boolean"}})",
         {R"({"b":1,"a":2,"z":true})", R"({"a":2,"z":false,"c":true,"d":true})"},
         {R"({"a":2,"b":1,"z":true})", R"({"b":1,"z":true})", R"({"a":1})",
          R"({"a":1,"z":true,"a":true})", R"({"a":1,"z":true,"c":1})", R"({"a":1,"z":1})"});
}

TEST(JsonSchema, OrdersOfSeveralSchemasInterleave) {
  Expect(
      R"({"type":"object","allOf":[{"properties":{"a":{"type":"integer"},"b":true},"required":["a"]},
             {"properties":{"c":{"type":"string"}},"required":["c"]}]})",
      {R"({"a":1,"c":"x"})", R"({"c":"x","a":1})", R"({"a":1,"c":"x","b":2})"},
      {R"({"b":2,"a":1,"c":"x"})", R"({"a":1})", R"({"c":1,"a":1})"});
}

TEST(JsonSchema, CountsMembersAndItems) {
  Expect(R"({"type":"object","minProperties":1,"maxProperties":2})",
         {"{\"a\":1}", "{\"a\":1,\"b\":1}"}, {"{}", "{\"a\":1,\"b\":1,\"c\":1}"});
  Expect(R"({"type":"array","minItems":1,"maxItems":2})", {"[1]", "[1,1]"}, {"[]", "[1,1,1]"});
  Expect(R"({"type":"array","contains":{"const":1},"minContains":2,"maxContains":3})",
         {"[1,1]", "[0,1,2,1]", "[1,1,1]"}, {"[1]", "[]", "[1,1,1,1]"});
}

TEST(JsonSchema, CombinesSchemas) {
  Expect(R"({"oneOf":[{"type":"integer","multipleOf":2},{"type":"integer","multipleOf":3}]})",
         {"2", "3", "4", "9"}, {"6", "1", "0", "\"2\""});
  Expect(R"({"not":{"type":"object","required":["a"]}})", {"1", "{}", "{\"b\":1}"},
         {"{\"a\":1}", "{\"b\":1,\"a\":1}"});
  Expect(R"({"type":"object","properties":{"k":{"enum":["a","b"]},"v":true},
             "if":{"properties":{"k":{"const":"a"}},"required":["k"]},"then":{"required":["v"]}})",
         {R"({"k":"a","v":1})", R"({"k":"b"})", "{}"}, {R"({"k":"a"})"});
  Expect(R"({"not":{"const":{"a":[1,2]}}})",
         {"{}", R"({"a":[1]})", R"({"a":[1,3]})", R"({"a":[1,2],"b":0})"},
         {R"({"a":[1,2]})", R"({"a": [1, 2.0]})"});
}

TEST(JsonSchema, KeepsStrings) {
  Expect(R"({"type":"string","minLength":2,"maxLength":3})",
         {"\"ab\"", "\"é\\n\\u00e9\"", "\"\U0001F600a\""}, {"\"a\"", "\"abcd\"", "\"\U0001F600\""});
  Expect(R"({"type":"string","pattern":"^a\"\\n?$"})", {"\"a\\\"\"", "\"a\\\"\\n\""},
         {"\"a\"\"", "\"a\""});
  Expect(R"({"type":"string","format":"date"})", {"\"2024-02-29\""},
         {"\"2023-02-29\"", "\"2023-13-01\"", "\"x\""});
  Expect(R"({"type":"string","format":"ipv6"})",
         {"\"::1\"", "\"2001:db8::8:800:200c:417a\"", "\"::ffff:1.2.3.4\""},
         {"\":::1\"", "\"12345::\"", "\"1::2::3\""});
  Expect(R"({"type":"string","format":"uri"})",
         {"\"http://a.b/c?d=e#f\"", "\"urn:x:y\"", "\"mailto:a@b\""},
         {"\"a b\"", "\"//a\"", "\"http://a b\"", "\"http://[::1\""});
  Expect(R"({"type":"string","format":"our own"})", {"\"whatever\""}, {});
}

TEST(JsonSchema, FollowsReferences) {
  Expect(R"({"$ref":"#/$defs/list","$defs":{"list":{"anyOf":[{"type":"null"},{"type":"array",
             "prefixItems":[{"type":"integer"},{"$ref":"#/$defs/list"}],"items":false,"minItems":2}]}}})",
         {"null", "[1,null]", "[1,[2,[3,null]]]"}, {"[1]", "[1,[2]]", "[1,2]"});
  EXPECT_EQ(Refusal(R"({"$ref":"http://else.where/x"})").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Refusal(R"({"$ref":"#/a"})").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Refusal(R"({"$ref":"#"})").code(), absl::StatusCode::kInvalidArgument);
}

TEST(JsonSchema, IntegersAreSpelledAsIntegers) {
  Expect(R"({"type":"integer"})", {"0", "17", "-3"}, {"17.0", "-0", "-0.0", "1e3", "0.0"});
  Expect(R"({"type":["integer","null"],"minimum":-5,"maximum":5})", {"-5", "0", "null"},
         {"-0", "5.0", "6"});
  Expect(R"({"enum":[5,1.5,"a"]})", {"5", "1.5", "\"a\""}, {"5.0", "5e0"});
  Expect(R"({"const":{"n":[0,2]}})", {R"({"n":[0,2]})"}, {R"({"n":[-0,2]})", R"({"n":[0,2.0]})"});
  Expect(R"({"allOf":[{"type":"number"},{"type":"integer"}]})", {"7"}, {"7.0"});
  // What is spelled otherwise in the schema, and what is asked for as a number, may be so.
  Expect(R"({"enum":[5.0]})", {"5.0", "5"}, {"6"});
  Expect(R"({"type":"number"})", {"17.0", "-0.0", "1e3", "17"}, {});
  Expect(R"({"type":"integer","x-integers":"any"})", {"17.0", "-0.0", "1e3", "17"}, {"1.5"});
  Expect(R"({"enum":[5],"x-integers":"any"})", {"5.0", "5"}, {"6"});
  EXPECT_EQ(Refusal(R"({"type":"integer","x-integers":"some"})").code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(JsonSchema, NullMeansAbsentWhereSerializersWriteItForAnEmptyList) {
  Expect(R"({"type":"object","required":null,"properties":{"a":{"type":"string","enum":null}}})",
         {"{}", R"({"a":"x"})"}, {R"({"a":1})"});
  Expect(R"({"type":"object","properties":null,"additionalProperties":{"type":"integer"}})",
         {"{}", R"({"a":1})"}, {R"({"a":"x"})"});
  Expect(R"({"type":"string","anyOf":null})", {"\"x\""}, {"1"});
}

TEST(JsonSchema, KnowsOlderDialects) {
  Expect(
      R"({"$schema":"http://json-schema.org/draft-04/schema#","type":"integer","minimum":1,"exclusiveMinimum":true})",
      {"2"}, {"1", "2.0"});
  Expect(
      R"({"$schema":"http://json-schema.org/draft-07/schema#","type":"array","items":[{"type":"integer"}],"additionalItems":false})",
      {"[]", "[1]"}, {"[1,2]", "[\"a\"]"});
}

TEST(JsonSchema, RefusesByName) {
  const auto names = [](const char* schema, const char* place) {
    const absl::Status status = Refusal(schema);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << schema << status;
    EXPECT_NE(std::string(status.message()).find(place), std::string::npos) << status;
  };
  names(R"({"type":"array","uniqueItems":true})", "#/uniqueItems");
  names(R"({"properties":{"a/b":{"type":"object","unevaluatedProperties":false}}})",
        "#/properties/a~1b/unevaluatedProperties");
  names(R"({"type":"string","pattern":"(a)\\1"})", "#/pattern");
  names(R"({"type":"string","format":"regex"})", "#/format");
  names(R"({"$schema":"http://our.own/dialect"})", "$schema");
}

TEST(JsonSchema, RefusesWhatIsMalformedOrAcceptsNothing) {
  for (const char* schema :
       {"1", "{\"type\":\"thing\"}", "{\"type\":\"string\",\"minLength\":-1}", "{\"anyOf\":{}}",
        "{\"properties\":[]}", "false", "{\"type\":\"integer\",\"minimum\":2,\"maximum\":1}",
        "{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":false}}", "{"})
    EXPECT_EQ(Refusal(schema).code(), absl::StatusCode::kInvalidArgument) << schema;
}

TEST(JsonSchema, NamesThePlaceOfWhatIsMalformedWhereverItIs) {
  const auto names = [](const char* schema, const std::string& place) {
    const absl::Status status = Refusal(schema);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << schema << status;
    EXPECT_EQ(std::string(status.message()).substr(0, place.size()), place) << status;
  };
  names(R"({"type":"object","properties":{"a/b":{"type":"strng"},"c":{"type":"integer"}}})",
        "#/properties/a~1b/type is \"strng\"; accepted: null, boolean,");
  names(R"({"properties":{"a":{"items":{"type":["string",null]}}}})",
        "#/properties/a/items/type is ");
  names(R"({"properties":{"a":{"type":null}}})", "#/properties/a/type is null");
  names(R"({"$defs":{"unused":{"type":[]}},"type":"string"})", "#/$defs/unused/type is []");
  names(R"({"type":"string","anyOf":[{"enum":"a"}]})", "#/anyOf/0/enum is \"a\"");
  names(R"({"type":"string","required":"a"})", "#/required is \"a\"; accepted: a list of names");
  names(R"({"type":"object","required":[1]})", "#/required is [1]");
}

TEST(JsonSchema, ExplosionsEndInAStatus) {
  std::string schema = "{\"type\":\"object\",\"allOf\":[";
  for (int i = 0; i < 20; ++i)
    schema += std::string(i > 0 ? "," : "") + R"({"anyOf":[{"required":["a)" + std::to_string(i) +
              R"("]},{"required":["b)" + std::to_string(i) + R"("]}]})";
  EXPECT_EQ(Refusal(schema + "]}").code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace sluice
