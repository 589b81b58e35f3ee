#include "services/constraint/grammar/gbnf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/services/constraint/grammar_text.h"

namespace sluice {
namespace {

using testing::Accepts;
using ::testing::HasSubstr;
using ::testing::StartsWith;

bool Takes(const std::string& grammar, const std::string& text) {
  const auto built = GbnfGrammar(grammar);
  EXPECT_TRUE(built.ok()) << built.status() << "\n" << grammar;
  return built.ok() && Accepts(**built, text);
}

std::string Refusal(const std::string& grammar, absl::StatusCode code) {
  const absl::Status status = GbnfGrammar(grammar).status();
  EXPECT_EQ(status.code(), code) << status << "\n" << grammar;
  return std::string(status.message());
}

std::string Malformed(const std::string& grammar) {
  return Refusal(grammar, absl::StatusCode::kInvalidArgument);
}

TEST(Gbnf, TakesLiteralsSetsAndRepeats) {
  const std::string grammar = R"(root ::= "a" [b-dé] [^x] "\n"? . {2,3} "\x41"+)";
  EXPECT_TRUE(Takes(grammar, "abyzzA"));
  EXPECT_TRUE(Takes(grammar, "aéy\nzzzAAA"));
  EXPECT_FALSE(Takes(grammar, "abxzzA"));
  EXPECT_FALSE(Takes(grammar, "abyzA"));
  EXPECT_FALSE(Takes(grammar, "abyzz"));
  EXPECT_TRUE(Takes("root ::= [a\\]\\-^]*", "]^-a"));
  EXPECT_TRUE(Takes("root ::= \"x\"{3}", "xxx"));
  EXPECT_FALSE(Takes("root ::= \"x\"{3}", "xxxx"));
  EXPECT_TRUE(Takes("root ::= \"x\"{2,}", "xxxxx"));
  EXPECT_FALSE(Takes("root ::= \"x\"{2,}", "x"));
}

TEST(Gbnf, TakesRulesAlternativesAndComments) {
  const std::string grammar = R"(# greeting
root ::= hello " " (name | "you") "!"   # to whom
       | "bye"
hello ::= "hello" |
          "hi"
name  ::=
    [A-Z] [a-z]*

)";
  EXPECT_TRUE(Takes(grammar, "hi Ann!"));
  EXPECT_TRUE(Takes(grammar, "hello you!"));
  EXPECT_TRUE(Takes(grammar, "bye"));
  EXPECT_FALSE(Takes(grammar, "hi ann!"));
  EXPECT_TRUE(Takes("root ::= \"a\" empty\nempty ::= | \"b\"", "a"));
  EXPECT_TRUE(Takes("root ::= \"a\"\r\n| \"b\"\r\n", "b"));
}

// As llama.cpp's json.gbnf: rules that lead back to themselves.
constexpr char kJson[] = R"(root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= | " " | "\n" [ \t]{0,20}
)";

TEST(Gbnf, TakesRecursion) {
  for (const char* text : {"{}", R"({"a": [1, -2.5e1, {"b": "\u00e9\n"}], "c": null})", "{\n\t}"}) {
    EXPECT_TRUE(Takes(kJson, text)) << text;
  }
  for (const char* text : {"[]", "{\"a\"}", R"({"a": 01})", R"({"a": [1,]})", "{"}) {
    EXPECT_FALSE(Takes(kJson, text)) << text;
  }
  const std::string balanced = R"-(root ::= ("(" root ")" root)?)-";
  EXPECT_TRUE(Takes(balanced, "(()())()"));
  EXPECT_FALSE(Takes(balanced, "(()"));
  const std::string counted = "root ::= pair{2,3}\npair ::= \"a\" pair \"b\" | \"-\"";
  EXPECT_TRUE(Takes(counted, "-aa-bb-"));
  EXPECT_FALSE(Takes(counted, "aa-bb"));
  EXPECT_FALSE(Takes(counted, "----"));
}

TEST(Gbnf, SaysWhereItIsMalformed) {
  EXPECT_EQ(Malformed("root ::= \"a\"\nroot ::= \"b\""), "line 2, column 1: root is defined twice");
  EXPECT_EQ(Malformed("root ::= a\n"), "line 1, column 10: the rule a is not defined");
  EXPECT_EQ(Malformed("start ::= \"a\""), "the rule root is not defined: texts begin there");
  EXPECT_EQ(Malformed(""), "the rule root is not defined: texts begin there");
  EXPECT_EQ(Malformed("root ::= (\"a\"\n"), "line 1, column 10: this parenthesis is not closed");
  EXPECT_EQ(Malformed("root ::= \"a"), "line 1, column 10: this literal is not closed");
  EXPECT_EQ(Malformed("root ::= [a"), "line 1, column 10: this set is not closed");
  EXPECT_EQ(Malformed("root ::= []"), "line 1, column 10: this set has no character");
  EXPECT_EQ(Malformed("root ::= \"a\" }"), "line 1, column 14: unexpected }");
  EXPECT_EQ(Malformed("root = \"a\""), "line 1, column 6: expected ::= behind root");
  EXPECT_EQ(Malformed("root ::= [z-a]"), "line 1, column 14: a range that ends before it begins");
  EXPECT_EQ(Malformed("root ::= \"\\xZ1\""), "line 1, column 13: expected 2 hexadecimal digits");
  EXPECT_EQ(Malformed("root ::= \"\\ud800\""), "line 1, column 17: this is no character");
  EXPECT_EQ(Malformed("root ::= \"a\"{3,2}"),
            "line 1, column 18: at most fewer times than at least");
  EXPECT_THAT(Malformed("root ::= \"\\d\""), StartsWith("line 1, column 12: unknown escape"));
  EXPECT_THAT(Malformed("root ::= \"\xC3\""), HasSubstr("this is not UTF-8"));
}

TEST(Gbnf, RefusesByNameWhatItLacks) {
  EXPECT_EQ(Refusal("root ::= <think>", absl::StatusCode::kUnimplemented),
            "line 1, column 10: tokens in grammars (<...>) are not kept; write their text");
  EXPECT_THAT(Malformed("root ::= x\nx ::= y \"a\"\ny ::= \"b\"? x"),
              HasSubstr("calls itself before its first character (left recursion)"));
  EXPECT_THAT(Malformed("root ::= root"), StartsWith("the rule root calls itself"));
  EXPECT_EQ(Malformed("root ::= \"a\" root"), "no text at all would be accepted");
}

TEST(Gbnf, IsLimited) {
  const auto exhausted = absl::StatusCode::kResourceExhausted;
  EXPECT_THAT(Refusal(std::string((1 << 20) + 1, ' '), exhausted), HasSubstr("bytes"));
  EXPECT_THAT(
      Refusal("root ::= " + std::string(200, '(') + "\"a\"" + std::string(200, ')'), exhausted),
      HasSubstr("deeper"));
  EXPECT_THAT(Refusal("root ::= \"a\"{1000000}", exhausted), HasSubstr("repeated more than"));
  Refusal("root ::= (\"a\" root \"b\" | \"c\"){100000}{100000}", exhausted);
  std::string rules = "root ::= \"a\"\n";
  for (int i = 0; i < 10'001; ++i) rules += "r" + std::to_string(i) + " ::= \"a\"\n";
  EXPECT_THAT(Refusal(rules, exhausted), HasSubstr("more than 10000 rules"));
}

}  // namespace
}  // namespace sluice
